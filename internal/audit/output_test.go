package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func openOutput(t *testing.T, path string, limit int64) *Output {
	t.Helper()
	o, err := OpenOutput(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o
}

func contents(t *testing.T, path string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Copy(t.Context(), path, &out, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestOutputKeepsTheEnd(t *testing.T) {
	const limit = 1000
	path := logPath(t)
	o := openOutput(t, path, limit)
	var all []byte
	for range 200 {
		p := make([]byte, rand.IntN(300))
		for i := range p {
			p[i] = byte(rand.IntN(256))
		}
		all = append(all, p...)
		if n, err := o.Write(p); n != len(p) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		got := contents(t, path)
		if !strings.HasSuffix(string(all), got) {
			t.Fatal("what is kept is not the end of what was written")
		}
		if len(got) > 2*limit || len(got) < min(limit, len(all)) {
			t.Fatalf("%d of %d bytes are kept", len(got), len(all))
		}
	}
	o.Close()
	o = openOutput(t, path, limit) // goes on
	if _, err := o.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, path); !strings.HasSuffix(string(all)+"more", got) {
		t.Error("what is kept is not the end of what was written")
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
}

func TestOutputLargeWrite(t *testing.T) {
	path := logPath(t)
	o := openOutput(t, path, 10)
	if n, err := o.Write([]byte("0123456789abcdefghijABCDE")); n != 25 || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
	if got := contents(t, path); got != "abcdefghijABCDE" {
		t.Errorf("kept %q", got)
	}
}

func TestOutputAfterClose(t *testing.T) {
	o := openOutput(t, logPath(t), 0)
	o.Close()
	if _, err := o.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	if err := o.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestOutputConcurrent(t *testing.T) {
	path := logPath(t)
	o := openOutput(t, path, 0)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := range 100 {
				fmt.Fprintf(o, "%d %d\n", w, n)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(contents(t, path), "\n"); n != 800 {
		t.Errorf("%d lines", n)
	}
}

func TestCopyMissing(t *testing.T) {
	if err := Copy(t.Context(), logPath(t), io.Discard, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Copy: %v", err)
	}
	if err := Tail(t.Context(), logPath(t), 3, io.Discard, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Tail: %v", err)
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		text  string
		lines int
		want  string
	}{
		{"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc", 2, "b\nc"},
		{"a\nb\n", 5, "a\nb\n"},
		{"a\n\n\n", 2, "\n\n"},
		{"a\nb\n", 0, ""},
		{"", 3, ""},
	} {
		path := logPath(t)
		fmt.Fprint(openOutput(t, path, 3), c.text) // spread over two files
		var out bytes.Buffer
		if err := Tail(t.Context(), path, c.lines, &out, false); err != nil || !strings.HasSuffix(c.want, out.String()) {
			t.Errorf("Tail(%q, %d) = %q, %v; want %q", c.text, c.lines, out.String(), err, c.want)
		}
		if got := string(lastLines([]byte(c.text), c.lines)); got != c.want {
			t.Errorf("lastLines(%q, %d) = %q, want %q", c.text, c.lines, got, c.want)
		}
	}
}

func TestTailOfMuch(t *testing.T) {
	path := logPath(t)
	o := openOutput(t, path, 0)
	for n := range 300_000 {
		fmt.Fprintf(o, "line %d\n", n)
	}
	var out bytes.Buffer
	if err := Tail(t.Context(), path, 2, &out, false); err != nil || out.String() != "line 299998\nline 299999\n" {
		t.Errorf("Tail = %q, %v", out.String(), err)
	}
}

func TestFollowOutput(t *testing.T) {
	path := logPath(t)
	var all bytes.Buffer
	for n := range 1000 {
		fmt.Fprintf(&all, "line %d\n", n)
	}
	for _, c := range []struct {
		name string
		run  func(ctx context.Context, w io.Writer) error
	}{
		{"copy", func(ctx context.Context, w io.Writer) error { return Copy(ctx, path, w, true) }},
		{"tail", func(ctx context.Context, w io.Writer) error { return Tail(ctx, path, 10, w, true) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			os.Remove(path)
			os.Remove(oldPath(path))
			go func() {
				time.Sleep(20 * time.Millisecond)
				o, err := OpenOutput(path, 3000)
				if err != nil {
					t.Error(err)
					return
				}
				defer o.Close()
				for p := range bytes.Lines(all.Bytes()) {
					o.Write(p)
					time.Sleep(500 * time.Microsecond)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			got := &until{want: all.Len(), done: cancel}
			err := c.run(ctx, got)
			if !errors.Is(err, context.Canceled) || got.String() != all.String() {
				t.Errorf("got %d bytes of %d, %v", got.Len(), all.Len(), err)
			}
		})
	}
}

// until ends something once enough was written to it.
type until struct {
	bytes.Buffer
	want int
	done func()
}

func (u *until) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if u.Len() >= u.want {
		u.done()
	}
	return n, err
}
