package gvisor

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/state/stateio"

	"github.com/bothy-dev/bothy/internal/sums"
)

// handed returns an image with a file of that many pages, each with different contents, its data, and
// the error passed to spoil.
func handed(t *testing.T, pages int) (h *handing, data []byte, spoilt *error) {
	t.Helper()
	dir := t.TempDir()
	data = make([]byte, pages*sums.Page)
	for i := range data {
		data[i] = byte(i>>12 + i)
	}
	if err := os.WriteFile(filepath.Join(dir, "pages"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sums.Write(dir); err != nil {
		t.Fatal(err)
	}
	spoilt = new(error)
	h, err := handOut(opened(t, dir), func(err error) { *spoilt = err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.stopHanding)
	if err := os.Truncate(filepath.Join(dir, "pages"), int64(len(data)-sums.Page)); err != nil {
		t.Fatal(err) // the last page is missing by the time it is read
	}
	return h, data, spoilt
}

// opened opens an image.
func opened(t testing.TB, dir string) *sums.Files {
	t.Helper()
	files, err := sums.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// reading starts to read the file into a file in memory.
func reading(t *testing.T, h *handing) (stateio.AsyncReader, stateio.DestinationFile, *os.File) {
	t.Helper()
	r, err := h.OpenRead("pages")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { f.Close() })
	to, err := r.RegisterDestinationFD(int32(fd), 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, to, f
}

// TestHandOut checks that pages reach the requested places, and that no changed page does. spoil is
// called before the sentry learns of a changed page.
func TestHandOut(t *testing.T) {
	const page = sums.Page
	h, data, spoilt := handed(t, 8)
	r, to, f := reading(t, h)
	at := func(from, pages uint64) memmap.FileRange {
		return memmap.FileRange{Start: from * page, End: (from + pages) * page}
	}
	r.AddRead(0, 2*page, to, at(5, 1), nil)
	r.AddReadv(1, 3*page, 3*page, to, []memmap.FileRange{at(9, 1), at(0, 2)}, nil)
	// The sentry may wait for more reads than exist.
	done, err := r.Wait(nil, 1000)
	if err != nil || len(done) != 2 || done[0].Err != nil || done[0].N != page || done[1].Err != nil || done[1].N != 3*page {
		t.Fatalf("%+v, %v", done, err)
	}
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 10*page))
	want := make([]byte, 10*page)
	copy(want[5*page:], data[2*page:3*page])
	copy(want[9*page:], data[3*page:4*page])
	copy(want, data[4*page:6*page])
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, the same: %v", len(got), err, bytes.Equal(got, want))
	}
	if *spoilt != nil {
		t.Fatal(*spoilt)
	}
	r.AddRead(2, 7*page, to, at(20, 1), nil)
	if done, err = r.Wait(nil, 1); err != nil || len(done) != 1 || !errors.Is(done[0].Err, unix.EIO) || done[0].N != 0 {
		t.Errorf("a page that is gone: %+v, %v", done, err)
	}
	if *spoilt == nil {
		t.Error("nobody was told")
	}
	if info, err := f.Stat(); err != nil || info.Size() > 10*page {
		t.Errorf("something was written: %v, %v", info.Size(), err)
	}
	if done, err := r.Wait(nil, 1); err != nil || len(done) != 0 {
		t.Errorf("nothing was asked for: %+v, %v", done, err)
	}
	r.AddRead(3, 0, to, at(0, 1), nil)
	if err := r.Close(); err != nil { // with a read in progress
		t.Error(err)
	}
}

// TestHandOutNothingElse checks that only files of the image can be read, and only into files.
func TestHandOutNothingElse(t *testing.T) {
	h, _, _ := handed(t, 2)
	for _, name := range []string{"", ".", "sums", "../pages", "/etc/passwd"} {
		if _, err := h.OpenRead(name); err == nil {
			t.Errorf("%q is read", name)
		}
	}
	if _, err := h.OpenWrite("pages"); err == nil {
		t.Error("the image is written to")
	}
	r, _, _ := reading(t, h)
	defer r.Close()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer closeAll(pipe[:])
	if _, err := r.RegisterDestinationFD(int32(pipe[1]), sums.Page, nil); err == nil {
		t.Error("a pipe is written to")
	}
}
