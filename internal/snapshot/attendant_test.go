package snapshot

import (
	"bytes"
	"errors"
	"io"
	"log"
	"os"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// TestAttendantWorkspaceAway checks that the attendant reports a workspace that was moved away, and
// makes the checkpoint once it is back. It makes none of a sandbox that was removed.
func TestAttendantWorkspaceAway(t *testing.T) {
	s, dir, sb := newMovable(t)
	var said bytes.Buffer
	a := &attendant{snapshots: s, sb: sb, log: log.New(&said, "", 0), cause: "turn 1"}
	must(t, os.Rename(dir, dir+"-away"))
	a.makeCheckpoint(t.Context())
	if !bytes.Contains(said.Bytes(), []byte("turn 1: no checkpoint: ")) || a.cause != "turn 1" {
		t.Errorf("of one that failed it is said %q, and %q is to be made", said.String(), a.cause)
	}
	must(t, os.Rename(dir+"-away", dir))
	a.makeCheckpoint(t.Context())
	if list, err := s.Checkpoints(sb).List(); err != nil || len(list) != 1 || list[0].Cause != "turn 1" || a.cause != "" {
		t.Errorf("%v, %+v, and %q is to be made", err, list, a.cause)
	}
	must(t, s.engine.Remove(t.Context(), sb, true))
	said.Reset()
	a.cause = "turn 2"
	a.makeCheckpoint(t.Context())
	if said.Len() > 0 || a.cause != "" {
		t.Errorf("of a sandbox that is gone it is said %q, and %q is to be made", said.String(), a.cause)
	}
}

// TestAttemptWaits checks that the time of an attempt does not count the wait for another command's
// checkpoint.
func TestAttemptWaits(t *testing.T) {
	s, _, sb := newMovable(t)
	_, theirs, err := s.openCheckpoints(sb)
	must(t, err)
	type result struct {
		attempt
		error
	}
	done := make(chan result)
	go func() {
		did, err := s.checkpointUnasked(t.Context(), sb, "test", nil)
		done <- result{did, err}
	}()
	time.Sleep(100 * time.Millisecond) // the longer the wait, the surer the result
	freed := time.Now()
	theirs.Unlock()
	r := <-done
	must(t, r.error)
	if most := time.Since(freed); r.took > most {
		t.Errorf("it took %s of the %s after the lock was free", r.took, most)
	}
}

// TestAttemptLookedAt checks that an attempt reports the save of the root layer that it looked at,
// and not a later one.
func TestAttemptLookedAt(t *testing.T) {
	s, _, sb := newMovable(t)
	d := s.directory(sb)
	write := func(at time.Time) {
		must(t, store.WriteJSON(d.Status(), spec.Status{Version: spec.Version, State: spec.Stopped, Root: spec.RootLayer{SavedAt: &at}}))
	}
	one := time.Now().UTC()
	write(one)
	did, err := s.checkpointUnasked(t.Context(), sb, "test", nil)
	must(t, err)
	if did.saved == nil || !did.saved.Equal(one) {
		t.Errorf("%v was looked at, and not %v", did.saved, one)
	}
	if again, err := s.checkpointUnasked(t.Context(), sb, "test", did.saved); !errors.Is(err, errUnchanged) || again.saved == nil || !again.saved.Equal(one) {
		t.Errorf("%v: %v was looked at, and not %v", err, again.saved, one)
	}
	write(one.Add(time.Second))
	if _, err := s.checkpointUnasked(t.Context(), sb, "test", did.saved); !errors.Is(err, errUnchanged) {
		t.Error(err)
	}
}

// TestAttendantComesLate checks that events before the attendant listened count: a change of the
// spec, and a turn. The keeper reports both in its first answer alone.
func TestAttendantComesLate(t *testing.T) {
	for name, c := range map[string]struct {
		when, then string // in the spec, before and after the attendant asks
		happened   wire.Happened
		want       spec.Occasions
		cause      string
	}{
		"change":       {"each-turn", "1h", wire.Happened{Changes: 1}, spec.Occasions{Every: time.Hour}, ""},
		"turn":         {"each-turn", "each-turn", wire.Happened{Turns: 3}, spec.Occasions{Turn: true}, "turn 3"},
		"both":         {"1h", "each-turn", wire.Happened{Turns: 2, Changes: 4}, spec.Occasions{Turn: true}, "turn 2"},
		"other's turn": {"1h", "1h", wire.Happened{Turns: 2}, spec.Occasions{Every: time.Hour}, ""},
		"not any more": {"each-turn", "", wire.Happened{Turns: 2, Changes: 1}, spec.Occasions{}, ""},
		"none":         {"each-turn", "each-turn", wire.Happened{}, spec.Occasions{Turn: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, sb := newMovable(t)
			d := s.directory(sb)
			write := func(when string) {
				sb.Checkpoint = when
				must(t, store.WriteJSON(d.Spec(), sb))
			}
			write(c.when)
			k := &followedKeeper{func() wire.Happened { write(c.then); return c.happened }}
			k.serve(t, d)
			a := &attendant{snapshots: s, log: log.New(io.Discard, "", 0), look: time.NewTicker(time.Hour), pass: time.NewTicker(time.Hour)}
			must(t, a.followSandbox(t.Context(), sb.ID))
			if a.when != c.want {
				t.Errorf("it waits for %+v, not %+v", a.when, c.want)
			}
			if a.cause != c.cause { // a checkpoint that the keeper refused is still to be made
				t.Errorf("%q is to be made, not %q", a.cause, c.cause)
			}
		})
	}
}
