// Package uploadlimit counts the bytes that leave a sandbox under rules that bound them, and stops them
// at the exact byte.
//
// Sent bytes must never be forgotten: otherwise a program that can make the keeper die would get
// the budget anew. So no byte leaves before it is written down. A write for each packet would cost
// a sync of the disk each time. So the ledger writes down more than leaves, a block. It takes the
// unused rest back in a pause, and at the end. A keeper that dies in between has counted a block
// too much, and never a byte too little.
package uploadlimit

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// ErrSpent reports that a budget is used up; ErrUnkept, that bytes about to leave cannot be written
// down.
var (
	ErrSpent  = errors.New("what its rule lets out is used up")
	ErrUnkept = errors.New("the host cannot record the bytes sent by this rule just now, so they are not sent")
	errClosed = errors.New("the sandbox is stopped")
)

const (
	// blockPart makes a block a part of the budget, so that one crash does not use up a small budget.
	blockPart = 16
	minBlock  = 4 << 10
	maxBlock  = 1 << 20

	restTime  = 2 * time.Second // without any bytes sent: then the written counts are made exact
	retryTime = time.Second     // between two attempts to write that fail
)

// Ledger holds the accounts of one sandbox. It may be used concurrently.
type Ledger struct {
	keep func([]spec.Upload) error // the accounts are on the disk when it returns

	mu       sync.Mutex
	accounts map[string]*account // by the target of the rules
	saving   bool                // keep is under way
	saved    *sync.Cond          // keep has returned
	failed   error               // the error of keep
	retry    time.Time           // keep is not tried again before
	moved    bool                // something left since rest was last looked for
	rest     *time.Timer         // nil: all accounts are exact
	closed   bool
}

// account counts the bytes that left under rules with one target. kept is never less than out.
type account struct {
	out  int64 // bytes that were let out
	kept int64 // bytes that are written down
}

// New goes on from earlier counts. Without keep, the counts end with the ledger.
func New(before []spec.Upload, keep func([]spec.Upload) error) *Ledger {
	l := &Ledger{keep: keep, accounts: map[string]*account{}}
	l.saved = sync.NewCond(&l.mu)
	for _, u := range before {
		l.accounts[u.Target] = &account{out: u.Bytes, kept: u.Bytes}
	}
	if keep == nil {
		l.keep = func([]spec.Upload) error { return nil }
	}
	return l
}

// Left returns how much of a limit may still leave under rules with a target. It may be negative.
func (l *Ledger) Left(target string, limit int64) int64 { return limit - l.Sent(target) }

// Sent returns how much has left under rules with a target.
func (l *Ledger) Sent(target string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[target]; a != nil {
		return a.out
	}
	return 0
}

// Uploads returns the bytes that were let out, by target.
func (l *Ledger) Uploads() []spec.Upload {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listAccounts(func(a *account) int64 { return a.out })
}

// Close makes the written counts exact. No bytes may leave afterwards.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.saving {
		l.saved.Wait()
	}
	if l.closed {
		return nil
	}
	l.closed = true
	if l.rest != nil {
		l.rest.Stop()
	}
	return l.settle()
}

func (l *Ledger) account(target string) *account {
	a := l.accounts[target]
	if a == nil {
		a = &account{}
		l.accounts[target] = a
	}
	return a
}

// takeBytes lets up to n bytes out, of a limit in all, and returns how many. It may return less than n.
func (l *Ledger) takeBytes(a *account, limit, n int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		n = min(n, limit-a.out)
		switch {
		case l.closed:
			return 0, errClosed
		case n <= 0:
			return 0, ErrSpent
		case a.kept > a.out:
			n = min(n, a.kept-a.out)
			a.out += n
			l.moved = true
			return n, nil
		case l.saving:
			l.saved.Wait()
		default:
			if err := l.reserve(a, limit, n); err != nil {
				return 0, err
			}
		}
	}
}

// giveBack takes bytes back that were let out but not sent.
func (l *Ledger) giveBack(a *account, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.out -= n
}

// reserve writes down that n bytes and a block more leave.
func (l *Ledger) reserve(a *account, limit, n int64) error {
	if l.failed != nil && time.Now().Before(l.retry) {
		return l.failed
	}
	want := a.out + n
	if ahead := want + blockSize(limit); ahead > want { // else the sum overflows
		want = min(limit, ahead)
	}
	err := l.saveAccounts(func(o *account) int64 {
		if o == a {
			return want
		}
		return o.kept
	})
	if err == nil {
		a.kept = want
		l.armTimer()
	}
	return err
}

func blockSize(limit int64) int64 { return min(max(limit/blockPart, minBlock), maxBlock) }

// settle writes down the bytes that were let out, and no more.
func (l *Ledger) settle() error {
	exact := true
	for _, a := range l.accounts {
		exact = exact && a.kept == a.out
		a.kept = a.out // bytes that leave from here on are written down first
	}
	if exact {
		return nil
	}
	return l.saveAccounts(func(a *account) int64 { return a.kept })
}

// saveAccounts writes the accounts down. The lock is open meanwhile: bytes that need not wait leave.
func (l *Ledger) saveAccounts(bytes func(*account) int64) error {
	list := l.listAccounts(bytes)
	l.saving = true
	l.mu.Unlock()
	err := l.keep(list)
	l.mu.Lock()
	l.saving, l.failed = false, nil
	if err != nil {
		l.failed, l.retry = ErrUnkept, time.Now().Add(retryTime)
	}
	l.saved.Broadcast()
	return l.failed
}

// listAccounts returns the accounts that let bytes out, sorted.
func (l *Ledger) listAccounts(bytes func(*account) int64) []spec.Upload {
	list := []spec.Upload{}
	for _, target := range slices.SortedFunc(maps.Keys(l.accounts), cmp.Compare) {
		if n := bytes(l.accounts[target]); n > 0 {
			list = append(list, spec.Upload{Target: target, Bytes: n})
		}
	}
	return list
}

// armTimer schedules a look for a pause.
func (l *Ledger) armTimer() {
	if l.rest == nil && !l.closed {
		l.rest = time.AfterFunc(restTime, l.lookForPause)
	}
}

// lookForPause settles when no bytes were sent for a while.
func (l *Ledger) lookForPause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = nil
	switch {
	case l.closed:
	case l.moved || l.saving:
		l.moved = false
		l.armTimer()
	default:
		_ = l.settle() // the disk has more than left, then
	}
}
