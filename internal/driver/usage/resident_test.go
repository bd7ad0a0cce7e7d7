package usage

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestResident checks that a file in memory is counted once, mapped or not.
func TestResident(t *testing.T) {
	const size, slack = 64 << 20, 24 << 20
	pids := []int{os.Getpid(), os.Getpid()}
	grown := func(before int64) int64 { return Resident(pids) - before }
	before := Resident(pids)
	if before <= 0 {
		t.Fatal("nothing is counted")
	}
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	must(t, err)
	f := os.NewFile(uintptr(fd), "test")
	defer f.Close()
	page := make([]byte, 1<<20)
	for off := int64(0); off < size; off += int64(len(page)) {
		_, err := f.WriteAt(page, off)
		must(t, err)
	}
	if n := grown(before); n < size-slack || n > size+slack {
		t.Errorf("with a file of %d bytes it is %d more", size, n)
	}
	data, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	must(t, err)
	defer func() { must(t, unix.Munmap(data)) }()
	if n := grown(before); n < size-slack || n > size+slack {
		t.Errorf("when that is mapped it is %d more", n)
	}
}
