package audit

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain lets the test binary be a process that writes a log until it is
// killed.
func TestMain(m *testing.M) {
	path := os.Getenv("BOTHY_AUDIT_WRITE")
	if path == "" {
		os.Exit(m.Run())
	}
	l, err := Open(path, Options{MaxBytes: 20_000})
	if err != nil {
		panic(err)
	}
	for n := 0; ; n++ {
		if err := l.Write("test.number", map[string]any{"n": n}); err != nil {
			panic(err)
		}
	}
}

// patience is the time after which a test counts as hung.
const patience = 2 * time.Minute

// follow collects numbers until it has seen the last one, and reports each.
func follow(t *testing.T, path string, last int, told func(n int)) []int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []int
	seen := errors.New("seen")
	err := Follow(ctx, path, func(e Event) error {
		n := int(e.Fields["n"].(float64))
		all = append(all, n)
		told(n)
		if n == last {
			return seen
		}
		return nil
	})
	if !errors.Is(err, seen) {
		t.Fatalf("after %d events: %v", len(all), err)
	}
	return all
}

// pace keeps a writer from getting more than two files ahead of its reader. Older text is deleted before
// it is read.
type pace struct {
	ahead int64 // maximum lead
	done  atomic.Int64
}

func (p *pace) wait(written int) {
	for int64(written)-p.done.Load() > p.ahead {
		time.Sleep(time.Millisecond)
	}
}

func TestFollowAcrossRotation(t *testing.T) {
	const events = 1500
	path := logPath(t)
	p := &pace{ahead: 300} // some 500 fill a file
	go func() {
		time.Sleep(50 * time.Millisecond) // Follow waits for the log
		l, err := Open(path, Options{MaxBytes: 40_000})
		if err != nil {
			t.Error(err)
			return
		}
		defer l.Close()
		for n := range events {
			if err := l.Write("test.number", map[string]any{"n": n}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
			p.wait(n)
		}
	}()
	mustCount(t, follow(t, path, events-1, func(n int) { p.done.Store(int64(n)) }), 0, events)
	if _, err := os.Stat(oldPath(path)); err != nil {
		t.Errorf("the log was never renamed: %v", err)
	}
}

func TestFollowTwoRenamesAtOnce(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path, 1000)
	number(t, l, 0, 12)
	var wg sync.WaitGroup
	mustCount(t, follow(t, path, 29, func(n int) {
		if n != 11 {
			return
		}
		wg.Go(func() {
			time.Sleep(pollEvery / 2) // while Follow sleeps
			for n := 12; n < 30; n++ {
				_ = l.Write("test.number", map[string]any{"n": n})
			}
		})
	}), 0, 30)
	wg.Wait()
}

func TestFollowTornLine(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path, 0)
	number(t, l, 0, 2)
	l.Close()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(`{"time":"2026-01-01T00:00:00Z","ev`); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(pollEvery / 2)
		l, err := Open(path, Options{})
		if err != nil {
			t.Error(err)
			return
		}
		defer l.Close()
		for n := 2; n < 4; n++ {
			_ = l.Write("test.number", map[string]any{"n": n})
		}
	}()
	mustCount(t, follow(t, path, 3, func(int) {}), 0, 4)
}

func TestFollowEndsWithContext(t *testing.T) {
	path := logPath(t)
	ctx, cancel := context.WithTimeout(t.Context(), pollEvery/4)
	defer cancel()
	if err := Follow(ctx, path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a log: %v", err)
	}
	number(t, openLog(t, path, 0), 0, 3)
	ctx, cancel = context.WithCancel(t.Context())
	calls := 0
	err := Follow(ctx, path, func(Event) error {
		calls++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || calls == 0 {
		t.Errorf("after %d calls: %v", calls, err)
	}
}

// TestKilledWriter checks that a writer killed at any moment leaves a log that can be read and
// continued.
func TestKilledWriter(t *testing.T) {
	path := logPath(t)
	for round := range 5 {
		os.Remove(path)
		os.Remove(oldPath(path))
		writer := exec.CommandContext(t.Context(), os.Args[0])
		writer.Env = append(os.Environ(), "BOTHY_AUDIT_WRITE="+path)
		writer.Stderr = os.Stderr
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		for info, err := os.Stat(path); err != nil || info.Size() == 0; info, err = os.Stat(path) {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(100+13*round) * time.Millisecond)
		if err := writer.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		writer.Wait()
		all := numbers(t, path)
		last := all[len(all)-1] + 1
		mustCount(t, all, all[0], last)
		l := openLog(t, path, 20_000)
		number(t, l, last, last+3)
		l.Close()
		all = numbers(t, path)
		mustCount(t, all, all[0], last+3)
	}
}

// TestAppendBeforeRename checks events that are written between the end of the file, as a reader saw it,
// and the rename that it sees next. They are in the file that the reader is about to leave.
func TestAppendBeforeRename(t *testing.T) {
	path := logPath(t)
	l := openLog(t, path, 1000)
	number(t, l, 0, 3)
	var all []int
	lines := splitter{each: func(line []byte) error {
		if e, ok := decode(line); ok {
			all = append(all, int(e.Fields["n"].(float64)))
		}
		return nil
	}}
	w := walk{path: path, data: lines.addBytes, fileEnd: lines.endLine}
	first, err := w.successor()
	if err != nil {
		t.Fatal(err)
	}
	w.file = first
	if err := w.drainFile(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCount(t, all, 0, 3)
	number(t, l, 3, 15)
	next, err := w.successor()
	if err != nil || next == nil {
		t.Fatalf("successor = %v, %v", next, err)
	}
	if err := w.advance(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCount(t, all, 0, 15)
}
