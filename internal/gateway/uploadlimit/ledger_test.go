package uploadlimit

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// disk is where a ledger writes. It can refuse a write.
type disk struct {
	mu     sync.Mutex
	list   []spec.Upload
	writes int
	err    error
	hook   func()
}

func (d *disk) keep(list []spec.Upload) error {
	if d.hook != nil {
		d.hook()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	if d.err != nil {
		return d.err
	}
	d.list = slices.Clone(list)
	return nil
}

// count returns how often the disk was written.
func (d *disk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes
}

func (d *disk) of(target string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range d.list {
		if u.Target == target {
			return u.Bytes
		}
	}
	return 0
}

// TestCutAtTheByte checks that a writer is cut off at the exact byte, in whatever pieces it writes,
// and never after it.
func TestCutAtTheByte(t *testing.T) {
	const limit = 1000003
	for _, piece := range []int{1, 7, 4096, 65440, 1 << 20, limit - 1, limit, limit + 1} {
		d := &disk{}
		l := New(nil, d.keep)
		var out bytes.Buffer
		w := l.Meter("a.example", limit).Writer(&out)
		p := bytes.Repeat([]byte("x"), piece)
		var err error
		for err == nil {
			before := out.Len()
			var n int
			if n, err = w.Write(p); n != out.Len()-before {
				t.Fatalf("in pieces of %d: %d bytes went, and it says %d", piece, out.Len()-before, n)
			}
			if kept := d.of("a.example"); kept < int64(out.Len()) {
				t.Fatalf("in pieces of %d: %d bytes went, of which %d are written down", piece, out.Len(), kept)
			}
		}
		if !errors.Is(err, ErrSpent) || out.Len() != limit {
			t.Errorf("in pieces of %d: %d bytes went: %v", piece, out.Len(), err)
		}
		if left := l.Left("a.example", limit); left != 0 {
			t.Errorf("in pieces of %d: %d bytes are left", piece, left)
		}
		if d.count() > 2*blockPart+2 {
			t.Errorf("in pieces of %d: written down %d times", piece, d.count())
		}
		if err := l.Close(); err != nil || d.of("a.example") != limit {
			t.Errorf("at the end %d are written down, %v", d.of("a.example"), err)
		}
	}
}

// TestManyOnOneBudget checks that many concurrent senders share one budget.
func TestManyOnOneBudget(t *testing.T) {
	const limit = 3 << 20
	d := &disk{}
	l := New(nil, d.keep)
	var sent atomic.Int64
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			m := l.Meter("a.example", limit)
			w := m.Writer(writerFunc(func(p []byte) (int, error) {
				if n := sent.Add(int64(len(p))); n > d.of("a.example") {
					t.Errorf("%d bytes went, of which %d are written down", n, d.of("a.example"))
				}
				return len(p), nil
			}))
			for {
				if _, err := w.Write(make([]byte, 1000+i)); err != nil {
					if !errors.Is(err, ErrSpent) || !errors.Is(m.Err(), ErrSpent) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	if sent.Load() != limit {
		t.Errorf("%d bytes went, of %d", sent.Load(), limit)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestCrash checks that a keeper that dies at any time has counted at most a block too much, and
// never a byte too little.
func TestCrash(t *testing.T) {
	for _, limit := range []int64{100, 100 << 10, 50 << 20} {
		d := &disk{}
		l := New(nil, d.keep)
		m := l.Meter("a.example", limit)
		sent := int64(0)
		for sent < limit {
			n, err := m.Take(int(min(700, limit-sent)))
			sent += int64(n)
			if err != nil {
				t.Fatal(err)
			}
			if kept := d.of("a.example"); kept < sent || kept > sent+blockSize(limit) {
				t.Fatalf("of %d: %d bytes went, %d are written down", limit, sent, kept)
			}
		}
	}
}

// TestCrashWhileItIsWritten checks a keeper that dies during a write: bytes that wait for the write
// have not left.
func TestCrashWhileItIsWritten(t *testing.T) {
	d, sent := &disk{}, int64(0)
	l := New(nil, d.keep)
	d.hook = func() {
		if d.of("a.example") < sent {
			t.Errorf("%d bytes went, %d are written down", sent, d.of("a.example"))
		}
	}
	w := l.Meter("a.example", 1<<20).Writer(writerFunc(func(p []byte) (int, error) {
		sent += int64(len(p))
		return len(p), nil
	}))
	var err error
	for err == nil {
		_, err = w.Write(make([]byte, 3000))
	}
	if !errors.Is(err, ErrSpent) || sent != 1<<20 || d.count() < 2 {
		t.Errorf("%d bytes, %d writes: %v", sent, d.count(), err)
	}
	_ = l.Close()
}

// TestGoesOn checks that the next ledger goes on from the counts that it reads, whatever the limit
// is by then.
func TestGoesOn(t *testing.T) {
	d := &disk{}
	send := func(limit int64, want int) {
		t.Helper()
		l := New(d.list, d.keep)
		var out bytes.Buffer
		_, err := l.Meter("a.example", limit).Writer(&out).Write(make([]byte, 1<<20))
		if !errors.Is(err, ErrSpent) || out.Len() != want {
			t.Errorf("of %d: %d bytes went, want %d: %v", limit, out.Len(), want, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	send(1000, 1000)
	send(1000, 0)
	send(400, 0) // less than has left
	send(1500, 500)
	if d.of("a.example") != 1500 {
		t.Errorf("%v", d.list)
	}
	l := New(d.list, d.keep)
	if n, err := l.Meter("b.example", 10).Take(10); n != 10 || err != nil {
		t.Errorf("of another target: %d, %v", n, err)
	}
	if got := l.Uploads(); len(got) != 2 || got[0].Bytes != 1500 || got[1] != (spec.Upload{Target: "b.example", Bytes: 10}) {
		t.Errorf("%v", got)
	}
	_ = l.Close()
}

// TestUnkept checks that bytes that cannot be written down do not leave, and that they leave once a
// write succeeds.
func TestUnkept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{err: errors.New("the disk is full")}
		l := New(nil, d.keep)
		m := l.Meter("a.example", 1<<20)
		var out bytes.Buffer
		for range 100 {
			if n, err := m.Writer(&out).Write([]byte("x")); n != 0 || !errors.Is(err, ErrUnkept) || strings.Contains(err.Error(), "full") {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
		if d.count() != 1 {
			t.Errorf("%d attempts at once", d.count())
		}
		d.mu.Lock()
		d.err = nil
		d.mu.Unlock()
		time.Sleep(retryTime)
		if n, err := m.Writer(&out).Write([]byte("x")); n != 1 || err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		_ = l.Close()
	})
}

// TestRest checks that after a pause in sending the written counts equal the sent bytes.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := New(nil, d.keep)
		m := l.Meter("a.example", 50<<20)
		for range 5 {
			if _, err := m.Take(10); err != nil {
				t.Fatal(err)
			}
			time.Sleep(restTime / 2)
		}
		if d.of("a.example") <= 50 || d.count() != 1 {
			t.Errorf("while something is sent %d are written down, in %d writes", d.of("a.example"), d.count())
		}
		time.Sleep(3 * restTime)
		if d.of("a.example") != 50 || d.count() != 2 {
			t.Errorf("later %d are written down, in %d writes", d.of("a.example"), d.count())
		}
		time.Sleep(10 * restTime)
		if d.count() != 2 {
			t.Errorf("%d writes of nothing", d.count()-2)
		}
		if n, err := m.Take(1); n != 1 || err != nil || d.of("a.example") < 51 {
			t.Errorf("then %d, %v, %d", n, err, d.of("a.example"))
		}
		_ = l.Close()
	})
}

// TestGivenBack checks that bytes that were not sent are given back.
func TestGivenBack(t *testing.T) {
	l := New(nil, nil)
	m := l.Meter("a.example", 1000)
	broken := errors.New("broken pipe")
	n, err := m.Writer(writerFunc(func(p []byte) (int, error) { return 10, broken })).Write(make([]byte, 500))
	if n != 10 || !errors.Is(err, broken) || l.Left("a.example", 1000) != 990 || m.Err() != nil {
		t.Errorf("%d, %v: %d left, %v", n, err, l.Left("a.example", 1000), m.Err())
	}
	_ = l.Close()
	if _, err := m.Take(1); err == nil {
		t.Error("something leaves after the end")
	}
}

// TestAim checks that another rule may count during a request.
func TestAim(t *testing.T) {
	l := New(nil, nil)
	m := l.Meter("a.example", 10)
	if n, err := m.Take(20); n != 10 || !errors.Is(err, ErrSpent) {
		t.Errorf("%d, %v", n, err)
	}
	m.Aim("a.example", 15)
	if n, err := m.Take(20); n != 5 || !errors.Is(err, ErrSpent) {
		t.Errorf("with more: %d, %v", n, err)
	}
	m.Aim("a.example", 5)
	if n, err := m.Take(1); n != 0 || !errors.Is(err, ErrSpent) {
		t.Errorf("with less: %d, %v", n, err)
	}
	m.Aim("b.example", 7)
	if n, err := m.Take(20); n != 7 || !errors.Is(err, ErrSpent) {
		t.Errorf("of another: %d, %v", n, err)
	}
	m.Free()
	if n, err := m.Take(20); n != 20 || err != nil {
		t.Errorf("without: %d, %v", n, err)
	}
	if got := l.Uploads(); len(got) != 2 || got[0].Bytes != 15 || got[1].Bytes != 7 {
		t.Errorf("%v", got)
	}
	var none *Meter
	if n, err := none.Take(20); n != 20 || err != nil || none.Err() != nil {
		t.Errorf("nobody: %d, %v", n, err)
	}
	_ = l.Close()
}
