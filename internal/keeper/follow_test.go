package keeper

import (
	"context"
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func follower(t *testing.T) (k *Keeper, hear func() uint64, leave func() error, done chan error, stop context.CancelFunc) {
	t.Helper()
	k = bare()
	ctx, cancel := context.WithCancel(t.Context())
	ours, theirs := keepertest.Conns(t)
	done = make(chan error, 1)
	go func() { done <- k.answerFollow(ctx, ours); _ = ours.Close() }()
	hear = func() uint64 {
		var h wire.Happened
		must(t, theirs.Expect(wire.Reply, &h))
		return h.Turns
	}
	return k, hear, theirs.Close, done, cancel
}

// TestFollow checks that a follower hears how many turns there were, and of each new one; many at
// once make one report.
func TestFollow(t *testing.T) {
	k, hear, leave, done, stop := follower(t)
	defer stop()
	if n := hear(); n != 0 {
		t.Errorf("begins with %d turns", n)
	}
	k.happened.countTurn()
	if n := hear(); n != 1 {
		t.Errorf("%d turns, want 1", n)
	}
	for range 1000 { // nothing reads meanwhile
		k.happened.countTurn()
	}
	last, words := hear(), 1
	for ; last < 1001; words++ {
		n := hear()
		if n <= last {
			t.Fatalf("%d turns after %d", n, last)
		}
		last = n
	}
	if last != 1001 {
		t.Errorf("%d turns, want 1001", last)
	}
	must(t, leave())
	must(t, <-done)
}

// TestFollowToTheEnd checks that following ends with the sandbox, and says so.
func TestFollowToTheEnd(t *testing.T) {
	_, hear, _, done, stop := follower(t)
	hear()
	stop()
	if err := <-done; !errors.Is(err, spec.ErrStopping) {
		t.Error(err)
	}
}
