package gvisor

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sort"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
)

// maxRoom is how much of a file is written ahead. More would be on its way to the disk by the
// time it is written over, and go there twice.
const maxRoom = 1 << 30

// makeRoom has pages of the host's cache, and blocks of the disk, stand ready for what will be
// written to an empty file: half of what writing takes is finding them. They are filled with a
// page that nobody else can have made, by which cutRoom tells what was not used. What there is
// no room for is noticed when it is needed.
func makeRoom(ctx context.Context, f *os.File, size int64) error {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size) // not every file system can
	filler := make([]byte, driver.Page)
	_, _ = rand.Read(filler) // it does not fail
	some := bytes.Repeat(filler, 1<<20/driver.Page)
	end := min(size, maxRoom) / driver.Page * driver.Page
	for at := int64(0); at < end; at += int64(len(some)) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if _, err := f.WriteAt(some[:min(int64(len(some)), end-at)], at); err != nil {
			return nil
		}
	}
	return nil
}

// fillerOf is what the room of a file is filled with that nothing was written to yet; nil if
// none was made.
func fillerOf(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil || info.Size() < driver.Page {
		return nil, err
	}
	filler := make([]byte, driver.Page)
	_, err = f.ReadAt(filler, (info.Size()/driver.Page-1)*driver.Page)
	return filler, err
}

// cutRoom gives back what a file has beyond what was written to it, which is all that there is
// before the first page of the filler.
func cutRoom(f *os.File, filler []byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if filler == nil {
		return f.Truncate(size)
	}
	page := make([]byte, driver.Page)
	var failed error
	used := sort.Search(int(size/driver.Page), func(n int) bool {
		if _, err := f.ReadAt(page, int64(n)*driver.Page); err != nil && failed == nil {
			failed = fmt.Errorf("look for the end of what was written: %w", err)
		}
		return bytes.Equal(page, filler)
	})
	if failed != nil {
		return failed
	}
	if int64(used) < size/driver.Page {
		size = int64(used) * driver.Page
	}
	return f.Truncate(size)
}
