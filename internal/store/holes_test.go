package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNextData checks the parts of a file with holes, of an empty file and of one that was cut.
func TestNextData(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	defer f.Close()
	parts := func(size int64) (list string) {
		for at := int64(0); at < size; {
			start, end, err := NextData(f, at, size)
			must(t, err)
			list += fmt.Sprintf("%d-%d ", start, end)
			at = end
		}
		return list
	}
	if got := parts(0); got != "" {
		t.Errorf("empty: %s", got)
	}
	const mib = 1 << 20
	must(t, f.Truncate(4*mib))
	if got := parts(4 * mib); got != "4194304-4194304 " {
		t.Errorf("a hole: %s", got)
	}
	_, err = f.WriteAt(make([]byte, mib), mib)
	must(t, err)
	if _, err := f.Seek(mib, unix.SEEK_HOLE); errors.Is(err, unix.EINVAL) {
		t.Skip("this file system knows no holes")
	}
	if got := parts(4 * mib); got != "1048576-2097152 4194304-4194304 " {
		t.Errorf("data between holes: %s", got)
	}
	if got := parts(mib + 100); got != "1048576-1048676 " {
		t.Errorf("data beyond the size: %s", got)
	}
	must(t, f.Truncate(10))
	if start, end, err := NextData(f, mib, 4*mib); err != nil || start != 4*mib || end != 4*mib {
		t.Errorf("it was cut: %d-%d, %v", start, end, err)
	}
}
