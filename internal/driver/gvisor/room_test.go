package gvisor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
)

// A file is as long as what was written to it, however much room was made before.
func TestRoom(t *testing.T) {
	const page = driver.Page
	for _, c := range []struct{ room, written int64 }{
		{0, 0}, {0, 3}, {5, 0}, {5, 1}, {5, 4}, {5, 5}, {5, 9}, {700, 300}, {300, 700},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "pages"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := makeRoom(t.Context(), f, c.room*page+1); err != nil {
			t.Fatal(err)
		}
		filler, err := fillerOf(f)
		if err != nil || (filler == nil) != (c.room == 0) {
			t.Fatalf("%+v: filler %v, %v", c, filler != nil, err)
		}
		data := bytes.Repeat([]byte{0, 1}, int(c.written*page/2)) // also pages of nothing are written
		clear(data[len(data)/2:])
		if _, err := f.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		if err := cutRoom(f, filler); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(f.Name())
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%+v: %d bytes, %v", c, len(got), err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Blocks*512 > st.Size+16*page {
			t.Errorf("%+v: %d bytes on the disk, %v", c, st.Blocks*512, err)
		}
	}
}

// Who goes away meanwhile has no more of it made.
func TestRoomCancelled(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "pages"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := makeRoom(ctx, f, driver.Page); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
