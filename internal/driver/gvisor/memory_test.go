package gvisor

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/driver"
)

// Little memory is written at once, and of very much only a part is written ahead.
func TestAhead(t *testing.T) {
	for _, c := range []struct{ size, want int64 }{
		{0, 0}, {64 << 20, 0}, {256 << 20, 256 << 20}, {1 << 40, aheadMost},
	} {
		if got := ahead(c.size); got != c.want {
			t.Errorf("%d of %d, not %d", got, c.size, c.want)
		}
	}
}

// A file that was filled ahead ends where what was written over it does, wherever that is.
func TestWriteAhead(t *testing.T) {
	const filled = 7
	for _, pages := range []int{0, 1, 3, filled - 1, filled, filled + 4} {
		f, size := pagesFile(t)
		must(t, writeAhead(t.Context(), f, filled*driver.Page+17))
		if size() != filled*driver.Page {
			t.Fatalf("filled with %d bytes", size())
		}
		page, err := filler(f)
		must(t, err)
		data := bytes.Repeat([]byte{0}, pages*driver.Page) // a program may have such pages
		_, err = f.WriteAt(data, 0)
		must(t, err)
		must(t, trim(f, page))
		got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d pages: %d bytes, %v", pages, len(got), err)
		}
	}
}

// Nothing is written for somebody who has gone; and what was not filled stays as it is.
func TestNotAhead(t *testing.T) {
	f, size := pagesFile(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	must(t, writeAhead(gone, f, 3<<20))
	must(t, writeAhead(t.Context(), f, 0))
	page, err := filler(f)
	if err != nil || page != nil || size() != 0 {
		t.Fatalf("%d bytes, filled with %d, %v", size(), len(page), err)
	}
	_, err = f.WriteAt(make([]byte, 2*driver.Page), 0)
	must(t, err)
	must(t, trim(f, page))
	if size() != 2*driver.Page {
		t.Errorf("%d bytes are left", size())
	}
}

func pagesFile(t *testing.T) (f *os.File, size func() int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "pages"))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f, func() int64 {
		info, err := f.Stat()
		must(t, err)
		return info.Size()
	}
}
