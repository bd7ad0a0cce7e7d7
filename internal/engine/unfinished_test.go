package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// another returns an engine like that of another process on the same state: it does not share locks with
// the first.
func another(e *Engine) *Engine {
	return &Engine{Store: e.Store, Version: e.Version, Agents: e.Agents, Progress: e.Progress}
}

// eventually polls until so returns true, or the test times out.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for !so() {
		if t.Context().Err() != nil {
			t.Fatalf("it never came that %s", what)
		}
	}
}

// obtain does what bothy run does: it creates the sandbox of a directory and lends it a credential, or
// waits for the caller that does.
func obtain(e *Engine, dir, secret string) (*spec.Sandbox, error) {
	for {
		w := wish(dir)
		sb, created, err := e.Obtain(context.Background(), w, e.MarkUnfinished(w))
		if err != nil {
			return nil, err
		}
		if !created {
			if _, err := e.Adopt(context.Background(), sb, false); errors.Is(err, spec.ErrNotFound) {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		if e.Credentials().NeverLent(sb) {
			if _, err := e.Credentials().LendFirst(context.Background(), sb, nil, secret); err != nil {
				return nil, errors.Join(err, e.RemoveUnfinished(sb))
			}
		}
		return sb, e.MarkFinished(sb)
	}
}

// TestObtainAtOnce checks that one of many concurrent callers makes the sandbox, and that all of them
// get it with one lease.
func TestObtainAtOnce(t *testing.T) {
	e := newEngine(t)
	must(t, e.Credentials().SetSecret(here, stored("anthropic", canary)))
	for round := range 10 {
		dir := fmt.Sprintf("/srv/%d", round)
		const callers = 4
		got := make([]*spec.Sandbox, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				mine := another(e)
				sb, err := obtain(mine, dir, "anthropic")
				if err != nil {
					t.Error(err)
					return
				}
				if mine.Credentials().NeverLent(sb) {
					t.Error("it was had before it was lent anything")
				}
				got[i] = sb
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		for _, sb := range got {
			if sb.ID != got[0].ID {
				t.Errorf("%s and %s", sb.ID, got[0].ID)
			}
		}
		if l, err := e.Credentials().Leases(got[0]); err != nil || len(l) != 1 {
			t.Errorf("%+v, %v", l, err)
		}
	}
}

// TestRemoveUnfinished checks that a sandbox whose creator cannot lend to it is removed, and that a waiting
// caller makes another.
func TestRemoveUnfinished(t *testing.T) {
	e := newEngine(t)
	must(t, e.Credentials().SetSecret(here, stored("anthropic", canary)))
	sb := wish("/srv/app")
	must(t, e.Create(here, sb, e.MarkUnfinished(sb)))
	found := make(chan *spec.Sandbox)
	go func() {
		other, err := obtain(another(e), "/srv/app", "anthropic")
		if err != nil {
			t.Error(err)
		}
		found <- other
	}()
	must(t, e.RemoveUnfinished(sb))
	if other := <-found; other == nil || other.ID == sb.ID {
		t.Errorf("%+v", other)
	}
	if n := len(e.unfinished.byID); n != 0 {
		t.Errorf("%d locks are held", n)
	}
}

// TestKeepWanted checks that a sandbox is not removed if a caller that needs this very sandbox
// waits for it; that caller finishes it. A sandbox that was started, or is being started, is not taken
// back either.
func TestKeepWanted(t *testing.T) {
	e := newEngine(t)
	sb := wish("/srv/app")
	must(t, e.Create(here, sb, e.MarkUnfinished(sb)))
	d := e.Store.Sandbox(sb.ID)
	other := another(e)
	adopted := make(chan bool)
	go func() {
		is, err := other.Adopt(here, sb, true)
		if err != nil {
			t.Error(err)
		}
		adopted <- is
	}()
	eventually(t, "it is waited for", func() bool {
		lock, err := store.TryLock(d.WantedLock())
		if err == nil {
			lock.Unlock()
		}
		return errors.Is(err, store.ErrLocked)
	})
	must(t, e.RemoveUnfinished(sb))
	if !<-adopted || !e.Store.Has(sb.ID) {
		t.Fatal("it was removed")
	}
	lock, err := store.TryLock(d.Lock())
	must(t, err)
	must(t, other.RemoveUnfinished(sb))
	lock.Unlock()
	if !e.Store.Has(sb.ID) {
		t.Fatal("it was removed although another process starts it")
	}
	if is, err := e.Adopt(here, sb, false); err != nil || !is {
		t.Fatalf("%v, %v", is, err)
	}
	must(t, store.WriteJSON(d.Status(), spec.Status{State: spec.Stopped, StartedAt: &sb.CreatedAt}))
	must(t, e.RemoveUnfinished(sb))
	if !e.Store.Has(sb.ID) {
		t.Error("it was removed although it was started")
	}
	must(t, e.RemoveUnfinished(sb)) // this process does not make it any more
}

// TestAdopt checks that the next caller finishes a sandbox whose creator was killed, and that a finished
// sandbox cannot be adopted.
func TestAdopt(t *testing.T) {
	e := newEngine(t)
	sb := wish("/srv/app")
	must(t, e.Create(here, sb, e.MarkUnfinished(sb)))
	e.LeaveUnfinished(sb) // the kernel does that for a killed creator
	other := another(e)
	if is, err := other.Adopt(here, sb, false); err != nil || !is || !other.Credentials().NeverLent(sb) {
		t.Fatalf("%v, %v", is, err)
	}
	must(t, other.MarkFinished(sb))
	must(t, other.MarkFinished(sb))
	for range 2 {
		if is, err := e.Adopt(here, sb, false); err != nil || is {
			t.Errorf("one that is made: %v, %v", is, err)
		}
	}
	must(t, e.Remove(here, sb, true))
	if is, err := e.Adopt(here, sb, true); !errors.Is(err, spec.ErrNotFound) || is {
		t.Errorf("one that is gone: %v, %v", is, err)
	}
}

// TestConnectWhileMade checks that a caller neither starts a sandbox that another process makes nor
// waits for it forever.
func TestConnectWhileMade(t *testing.T) {
	e := newEngine(t)
	sb := wish("/srv/app")
	must(t, e.Create(here, sb, e.MarkUnfinished(sb)))
	ctx, cancel := context.WithCancel(here)
	cancel()
	if _, err := another(e).Connect(ctx, sb); !errors.Is(err, context.Canceled) || spec.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	if e.Store.Sandbox(sb.ID).MayHaveStarted() {
		t.Error("it was started")
	}
}

// TestLendFirstAtOnce checks that concurrent callers that lend a sandbox its first credential lend one
// in all.
func TestLendFirstAtOnce(t *testing.T) {
	e := newEngine(t)
	secrets := []string{"anthropic", "openai", "anthropic"}
	for _, name := range secrets[:2] {
		must(t, e.Credentials().SetSecret(here, stored(name, canary)))
	}
	for range 10 {
		sb := wish(t.TempDir())
		must(t, e.Create(here, sb))
		var wg sync.WaitGroup
		for _, name := range secrets {
			wg.Go(func() {
				if _, err := another(e).Credentials().LendFirst(here, sb, nil, name); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if l, err := e.Credentials().Leases(sb); err != nil || len(l) != 1 {
			t.Fatalf("%+v, %v", l, err)
		}
		// A credential that is asked for by name is lent in addition, once.
		for range 3 {
			wg.Go(func() {
				if _, err := another(e).Credentials().LendCredential(here, sb, nil, "openai", vault.Terms{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		l, err := e.Credentials().Leases(sb)
		if want := map[bool]int{true: 1, false: 2}[err == nil && l[0].Secret == "openai"]; err != nil || len(l) != want {
			t.Fatalf("%+v, %v", l, err)
		}
	}
}
