package uploadlimit

import (
	"io"
	"sync/atomic"
)

// Meter counts the bytes that one connection or request sends. Its methods may be called
// concurrently. A nil Meter counts nothing.
type Meter struct {
	ledger *Ledger
	aim    atomic.Pointer[aim] // nil: not counted
	failed atomic.Pointer[error]
}

// aim is the target that a meter counts for.
type aim struct {
	account *account
	limit   int64
}

// Meter returns a meter for rules with a target. limit is the limit of one of them.
func (l *Ledger) Meter(target string, limit int64) *Meter {
	m := &Meter{ledger: l}
	m.Aim(target, limit)
	return m
}

// Aim makes the bytes from here on count for another target and limit.
func (m *Meter) Aim(target string, limit int64) {
	if at := m.aim.Load(); at != nil && at.limit == limit && at.account == m.ledger.accountOf(target) {
		return
	}
	m.aim.Store(&aim{m.ledger.accountOf(target), limit})
}

func (l *Ledger) accountOf(target string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account(target)
}

// Free stops counting from here on.
func (m *Meter) Free() { m.aim.Store(nil) }

// Err returns why some bytes were not let out; nil if all were.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	if err := m.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Sent returns how much has left, of all bytes that count for the same target.
func (m *Meter) Sent() int64 {
	if m == nil {
		return 0
	}
	at := m.aim.Load()
	if at == nil {
		return 0
	}
	m.ledger.mu.Lock()
	defer m.ledger.mu.Unlock()
	return at.account.out
}

// Take lets n bytes out that are about to be sent. If it lets fewer out, it returns how many, and
// the reason.
func (m *Meter) Take(n int) (int, error) {
	if m == nil {
		return n, nil
	}
	at := m.aim.Load()
	done := 0
	for at != nil && done < n {
		some, err := m.takeBytes(at, n-done)
		done += some
		if err != nil {
			return done, err
		}
	}
	return n, nil
}

func (m *Meter) takeBytes(at *aim, n int) (int, error) {
	some, err := m.ledger.takeBytes(at.account, at.limit, int64(n))
	if err != nil {
		m.failed.CompareAndSwap(nil, &err)
	}
	return int(some), err
}

// Writer passes the allowed bytes to another writer, and ends at the byte where the budget ends.
func (m *Meter) Writer(to io.Writer) io.Writer {
	if m == nil {
		return to
	}
	return &writer{to: to, m: m}
}

// Sealed is Writer for a writer that encrypts.
func (m *Meter) Sealed(to io.Writer) io.Writer {
	if m == nil {
		return to
	}
	return &writer{to, m, true}
}

type writer struct {
	to     io.Writer
	m      *Meter
	sealed bool // after a failed write it does not say how much has left
}

func (w *writer) Write(p []byte) (done int, err error) {
	for done < len(p) {
		at, some := w.m.aim.Load(), len(p)-done
		if at != nil {
			if some, err = w.m.takeBytes(at, some); err != nil {
				return done, err
			}
		}
		sent, err := w.to.Write(p[done : done+some])
		done += sent
		if at != nil && sent < some && !w.sealed {
			w.m.ledger.giveBack(at.account, int64(some-sent))
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
