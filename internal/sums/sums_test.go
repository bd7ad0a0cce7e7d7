package sums

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// sample makes an image with files of several sizes.
func sample(t *testing.T) (dir string, files map[string][]byte) {
	t.Helper()
	dir = t.TempDir()
	files = map[string][]byte{"empty": {}, "odd": odd(3*Page + 17), "whole": odd(4 * Page)}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir, files
}

// odd returns bytes in which no two pages are equal.
func odd(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>12*7)
	}
	return b
}

// readAll reads a file of an image in steps.
func readAll(f *File, step int) ([]byte, error) {
	var all []byte
	buf := make([]byte, step)
	for {
		n, err := f.ReadAt(buf, int64(len(all)))
		all = append(all, buf[:n]...)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

// TestImage checks that an image reads as it was written, also after it was removed.
func TestImage(t *testing.T) {
	dir, files := sample(t)
	im, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		for _, step := range []int{Page, 2 * Page, 64 * Page} {
			got, err := readAll(im.File(name), step)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %d at once: %d bytes, %v", name, step, len(got), err)
			}
		}
	}
	if im.File("other") != nil {
		t.Error("there is a file that there is not")
	}
	for _, c := range []struct {
		n   int
		off int64
	}{{Page, 1}, {Page, -Page}, {Page - 1, 0}, {17, 0}} {
		if n, err := im.File("whole").ReadAt(make([]byte, c.n), c.off); n != 0 || err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%d bytes at %d: %d, %v", c.n, c.off, n, err)
		}
	}
}

// TestSpoiltImage checks that one changed bit anywhere is found before its page is returned.
func TestSpoiltImage(t *testing.T) {
	dir, files := sample(t)
	for name, data := range files {
		for at := 0; at < len(data); at += 509 {
			flip(t, filepath.Join(dir, name), at)
			im, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			got, err := readAll(im.File(name), Page)
			if !errors.Is(err, ErrDamaged) || len(got) != at/Page*Page || !bytes.Equal(got, data[:len(got)]) {
				t.Errorf("%s changed at %d: %d bytes, %v", name, at, len(got), err)
			}
			im.Close()
			flip(t, filepath.Join(dir, name), at)
		}
	}
	sums, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	for at := range sums {
		flip(t, filepath.Join(dir, Name), at)
		refused(t, dir, "changed sums")
		flip(t, filepath.Join(dir, Name), at)
	}
}

// TestNotWholeImage checks that a file that is shorter, longer, moved or missing is an error before
// anything is read.
func TestNotWholeImage(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"shorter":      func(dir string) error { return os.Truncate(filepath.Join(dir, "whole"), 2*Page) },
		"longer":       func(dir string) error { return os.Truncate(filepath.Join(dir, "whole"), 5*Page) },
		"gone":         func(dir string) error { return os.Remove(filepath.Join(dir, "odd")) },
		"half of them": func(dir string) error { return os.Truncate(filepath.Join(dir, Name), 60) },
		"empty sums":   func(dir string) error { return os.Truncate(filepath.Join(dir, Name), 0) },
		"a link": func(dir string) error {
			at := filepath.Join(dir, "whole")
			return errors.Join(os.Rename(at, at+".real"), os.Symlink("whole.real", at))
		},
	} {
		dir, _ := sample(t)
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, name)
	}
	// It may become shorter while it is read.
	dir, _ := sample(t)
	im, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	if err := os.Truncate(filepath.Join(dir, "whole"), Page); err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(im.File("whole"), Page); len(got) != Page || !errors.Is(err, ErrDamaged) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func refused(t *testing.T, dir, what string) {
	t.Helper()
	im, err := Open(dir)
	if err == nil {
		im.Close()
		t.Errorf("%s: it is opened", what)
	}
}

// flip changes one bit.
func flip(t *testing.T, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		data[at] ^= 16
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
