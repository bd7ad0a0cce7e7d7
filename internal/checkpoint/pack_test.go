package checkpoint

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSpare checks that the first copy of a file that changed, and was copied again, takes no
// disk space.
func TestSpare(t *testing.T) {
	const size = 8 << 20
	b := newBox(t)
	b.write("probe", "x")
	probe, err := os.OpenFile(b.path("probe"), os.O_RDWR, 0)
	must(t, err)
	defer probe.Close()
	if err := unix.Fallocate(int(probe.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1); err != nil {
		t.Skipf("no holes can be made in files of this file system: %v", err)
	}
	b.write("before", strings.Repeat("b", 100_000))
	b.write("file", strings.Repeat("0123456789abcdef", size/16))
	b.write("later", strings.Repeat("l", 100_000))
	b.settle()
	m, err := b.Begin("", "test")
	must(t, err)
	must(t, m.Warm(b.sources()))
	f, err := os.OpenFile(b.path("file"), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString("more")
	must(t, err)
	must(t, f.Close())
	b.settle()
	p, err := m.End(m.Take(b.sources()))
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Stat(b.packPath(p.Number), &st))
	if most := int64(size * 3 / 2); p.Bytes > most || st.Blocks*512 > most {
		t.Errorf("%d bytes are said to be added, and %d take room, for a file of %d", p.Bytes, st.Blocks*512, size)
	}
	want := look(t, b.dir)
	b.empty()
	b.back(p)
	if got := look(t, b.dir); got != want {
		t.Errorf("it was\n%s\n\nand is\n%s", want, got)
	}
	data, err := os.ReadFile(b.path("file"))
	if err != nil || string(data) != strings.Repeat("0123456789abcdef", size/16)+"more" {
		t.Errorf("%v, %d bytes", err, len(data))
	}
}
