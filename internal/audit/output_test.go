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
	o = openOutput(t, path, limit) // continue
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
}

func TestFollowOutput(t *testing.T) {
	path := logPath(t)
	var all bytes.Buffer
	for n := range 1000 {
		fmt.Fprintf(&all, "line %d\n", n)
	}
	const limit = 3000
	paced := &pace{ahead: limit - 100}
	go func() {
		time.Sleep(20 * time.Millisecond) // it waits meanwhile
		o, err := OpenOutput(path, limit)
		if err != nil {
			t.Error(err)
			return
		}
		defer o.Close()
		written := 0
		for p := range bytes.Lines(all.Bytes()) {
			o.Write(p)
			written += len(p)
			time.Sleep(500 * time.Microsecond)
			paced.wait(written)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := &until{want: all.Len(), pace: paced, done: cancel}
	err := Copy(ctx, path, got, true)
	if !errors.Is(err, context.Canceled) || got.String() != all.String() {
		t.Errorf("got %d bytes of %d, %v", got.Len(), all.Len(), err)
	}
}

// until ends something once enough was written to it.
type until struct {
	bytes.Buffer
	want int
	pace *pace
	done func()
}

func (u *until) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	u.pace.done.Store(int64(u.Len()))
	if u.Len() >= u.want {
		u.done()
	}
	return n, err
}
