package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/smalldisk"
)

func TestFullDisk(t *testing.T) {
	smalldisk.Test(t, "64k", func(t *testing.T, dir string) {
		t.Run("log", func(t *testing.T) { testFullLog(t, dir) })
		t.Run("retry", func(t *testing.T) { testRetry(t, dir) })
		t.Run("output", func(t *testing.T) { testFullOutput(t, dir) })
	})
}

// fill fills the disk. The returned function frees the space again.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	err := os.WriteFile(path, make([]byte, 1<<20), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill disk: %v", err)
	}
	return func() { os.Remove(path) }
}

func testFullLog(t *testing.T, dir string) {
	path := filepath.Join(dir, "events.jsonl")
	l := openLog(t, path, 20_000)
	defer os.Remove(path)
	n, lost := 0, 0
	write := func() error {
		err := l.Write("test.number", map[string]any{"n": n, "pad": strings.Repeat("x", 300)})
		n++
		return err
	}
	for range 3 { // the disk is full three times
		for range 5 {
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		free := fill(t, dir)
		for err := error(nil); err == nil; err = write() { // the last page still has some space
			if n > 10_000 {
				t.Fatal("the disk is never full")
			}
		}
		for range 20 {
			if err := write(); err != nil {
				t.Errorf("the same loss was reported twice: %v", err)
			}
		}
		lost += 21
		free()
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	seen, told := 0, 0.0
	last := -1
	err := Read(path, func(e Event) error {
		if e.Kind == KindDropped {
			told += e.Fields["bytes"].(float64)
			return nil
		}
		got := int(e.Fields["n"].(float64))
		if got <= last {
			return fmt.Errorf("%d after %d", got, last)
		}
		last = got
		seen++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen != n-lost || last != n-1 {
		t.Errorf("%d events of %d are there, %d were lost; the last is %d", seen, n, lost, last)
	}
	if size := told / float64(lost); size < 370 || size > 420 {
		t.Errorf("%v bytes were told for %d lost events", told, lost)
	}
}

func testFullOutput(t *testing.T, dir string) {
	path := filepath.Join(dir, "output.log")
	o := openOutput(t, path, 30_000)
	defer os.Remove(path)
	written := 0
	write := func() {
		n, err := o.Write(bytes.Repeat([]byte("0123456789"), 150))
		if n != 1500 || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		written += n
	}
	write()
	if err := o.Err(); err != nil {
		t.Errorf("Err without a loss: %v", err)
	}
	free := fill(t, dir)
	for range 10 {
		write()
	}
	if err := o.Err(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Err = %v", err)
	}
	if err := o.Err(); err != nil {
		t.Errorf("the same loss was reported twice: %v", err)
	}
	free()
	write()
	got := contents(t, path)
	lines := strings.Split(got, "\n")
	if len(lines) != 3 {
		t.Fatalf("got %d lines: %q", len(lines), got)
	}
	e, ok := decode([]byte(lines[1]))
	if !ok || e.Kind != KindDropped {
		t.Fatalf("no event between: %q", lines[1])
	}
	if kept := len(lines[0]) + len(lines[2]); float64(written-kept) != e.Fields["bytes"] {
		t.Errorf("%d of %d bytes are there, but %v are told to be lost", kept, written, e.Fields["bytes"])
	}
	// Close reports the loss if the disk has room by then.
	free = fill(t, dir)
	for range 10 {
		write()
	}
	free()
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if got := contents(t, path); strings.Count(got, KindDropped) != 2 {
		t.Error("Close did not tell the loss")
	}
}

// testRetry checks that a log knows of its loss, and reports it without a further event when the disk
// has space again.
func testRetry(t *testing.T, dir string) {
	path := filepath.Join(dir, "retry.jsonl")
	l := openLog(t, path, 20_000)
	defer os.Remove(path)
	if err := l.Retry(); err != nil || l.Lost() {
		t.Errorf("nothing is lost yet: %v, %t", err, l.Lost())
	}
	free := fill(t, dir)
	for n := 0; !l.Lost(); n++ {
		_ = l.Write("test.number", map[string]any{"n": n, "pad": strings.Repeat("x", 300)})
		if n > 10_000 {
			t.Fatal("the disk is never full")
		}
	}
	for range 3 {
		if err := l.Retry(); !errors.Is(err, unix.ENOSPC) || !l.Lost() {
			t.Errorf("on a full disk: %v, %t", err, l.Lost())
		}
	}
	free()
	if err := l.Retry(); err != nil || l.Lost() {
		t.Errorf("there is room again: %v, %t", err, l.Lost())
	}
	told := 0
	if err := Read(path, func(e Event) error {
		if e.Kind == KindDropped && e.Fields["bytes"].(float64) > 300 {
			told++
		}
		return nil
	}); err != nil || told != 1 {
		t.Errorf("the loss is told %d times, %v", told, err)
	}
}
