package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// pausing returns a keeper with only the parts that pause the sandbox.
func pausing(t *testing.T) (*Keeper, *wall) {
	t.Helper()
	w := &wall{}
	s := &saver{wall: w, store: layer.Store{Dir: t.TempDir()}, log: quiet(), note: func(spec.RootLayer) {}}
	return &Keeper{saver: s, wall: w, life: newLife("box", func() {})}, w
}

// TestPaused checks that a caller does not keep a sandbox paused after it goes, or when the
// sandbox is to end.
func TestPaused(t *testing.T) {
	for name, leave := range map[string]func(k *Keeper, client io.Closer){
		"gone":          func(_ *Keeper, c io.Closer) { _ = c.Close() },
		"it shall stop": func(k *Keeper, _ io.Closer) { close(k.life.asked) },
	} {
		t.Run(name, func(t *testing.T) {
			k, w := pausing(t)
			k.spec = &spec.Sandbox{Name: "box"}
			ours, theirs := keepertest.Conns(t)
			done := make(chan error, 1)
			go func() { done <- k.pauseFor(t.Context(), ours, "") }()
			must(t, theirs.Expect(wire.Reply, &struct{}{}))
			if !w.still.Load() {
				t.Error("it does not stand still")
			}
			leave(k, theirs)
			if err := <-done; !errors.Is(err, errLeft) {
				t.Error(err)
			}
			if w.still.Load() {
				t.Error("it does not go on")
			}
			if l := k.saver.savedLayer(); l.SaveError != "" || l.SavedAt != nil {
				t.Errorf("the layer was saved, or could not be: %+v", l)
			}
		})
	}
	k, w := pausing(t)
	ours, theirs := keepertest.Conns(t)
	done := make(chan error, 1)
	go func() { done <- k.pauseFor(t.Context(), ours, "") }()
	must(t, theirs.Expect(wire.Reply, &struct{}{}))
	must(t, theirs.SendJSON(wire.Request, struct{}{}))
	must(t, theirs.Expect(wire.Reply, &wire.Stood{}))
	if w.still.Load() || k.saver.savedLayer().SavedAt == nil {
		t.Errorf("still: %v, %+v", w.still.Load(), k.saver.savedLayer())
	}
	_ = theirs.Close()
	must(t, <-done)
}

// remembering is a wall that saves memory until the save is cancelled.
type remembering struct {
	*wall
	saves chan struct{}
}

func (remembering) PrepareMemory(context.Context, string) error { return nil }

func (w remembering) SaveMemory(ctx context.Context, _ string) error {
	close(w.saves)
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestImageBrokenOff checks that a memory image is cancelled when its caller is gone, and when the
// sandbox is to end. The sandbox then goes on, and nothing is saved.
func TestImageBrokenOff(t *testing.T) {
	for name, tt := range map[string]struct {
		leave func(end func(), client io.Closer)
		want  error
	}{
		"gone":          {func(_ func(), c io.Closer) { _ = c.Close() }, errLeft},
		"it shall stop": {func(end func(), _ io.Closer) { end() }, spec.ErrStopping},
	} {
		t.Run(name, func(t *testing.T) {
			k, w := pausing(t)
			saves := make(chan struct{})
			k.spec, k.wall = &spec.Sandbox{Name: "box"}, remembering{w, saves}
			l, in := connectInit(t)
			k.link = l
			in.Hello()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ours, theirs := keepertest.Conns(t)
			done := make(chan error, 1)
			go func() { done <- k.answerPause(ctx, ours, wire.Ask{Unasked: true, Memory: t.TempDir()}) }()
			in.Asked(wire.AskSilence)
			<-saves
			if !w.still.Load() {
				t.Error("it does not stand still")
			}
			tt.leave(cancel, theirs)
			in.Asked(wire.AskSpeak)
			keepertest.Within(t, "the end", func() {
				if err := <-done; !errors.Is(err, tt.want) {
					t.Errorf("it ends with %v", err)
				}
			})
			if l := k.saver.savedLayer(); w.still.Load() || l.SaveError != "" || l.SavedAt != nil {
				t.Errorf("it stands still: %v; %+v", w.still.Load(), l)
			}
		})
	}
}

// TestStoodBeforeStatus checks that the caller hears that the layer is on disk, and when it was saved,
// before the status is written.
func TestStoodBeforeStatus(t *testing.T) {
	k, _ := pausing(t)
	told := make(chan struct{})
	k.saver.note = func(spec.RootLayer) { <-told }
	ours, theirs := keepertest.Conns(t)
	done := make(chan error, 1)
	go func() { done <- k.pauseFor(t.Context(), ours, "") }()
	must(t, theirs.Expect(wire.Reply, &struct{}{}))
	must(t, theirs.SendJSON(wire.Request, struct{}{}))
	keepertest.Within(t, "the answer", func() {
		defer close(told)
		var stood wire.Stood
		if err := theirs.Expect(wire.Reply, &stood); err != nil || stood.SavedAt == nil || !stood.SavedAt.Equal(*k.saver.savedLayer().SavedAt) {
			t.Errorf("%+v, %v", stood, err)
		}
	})
	_ = theirs.Close()
	must(t, <-done)
}

// TestLayerAlone checks that a failed pause is not reported as an error of the layer.
func TestLayerAlone(t *testing.T) {
	k, w := pausing(t)
	broken := errors.New("no room for the memory")
	err := k.saver.savePaused(t.Context(), func(context.Context) (func(), error) { return nil, broken }, nil, nil)
	if l := k.saver.savedLayer(); !errors.Is(err, broken) || l.SaveError != "" || l.SavedAt != nil {
		t.Errorf("%v, %+v", err, l)
	}
	err = k.saver.savePaused(t.Context(), w.Pause, func() error { return nil }, func() error { return nil })
	must(t, err)
	if k.saver.savedLayer().SavedAt == nil {
		t.Error("it is not saved")
	}
	w.save = func(string) error { return broken }
	if err := k.saver.savePaused(t.Context(), w.Pause, nil, nil); !errors.Is(err, broken) || k.saver.savedLayer().SaveError == "" {
		t.Errorf("%v, %+v", err, k.saver.savedLayer())
	}
}

// TestNoRoomToPause checks that a full disk is not an error of the sandbox, and has a hint for the
// user.
func TestNoRoomToPause(t *testing.T) {
	k, w := pausing(t)
	k.spec = &spec.Sandbox{Name: "box"}
	w.save = func(string) error { return fmt.Errorf("write: %w", unix.ENOSPC) }
	ours, _ := keepertest.Conns(t)
	err := k.answerPause(t.Context(), ours, wire.Ask{Unasked: true})
	if errors.Is(err, spec.ErrSandbox) || !strings.Contains(spec.Hint(err), "make room") {
		t.Errorf("%v: %s", err, spec.Hint(err))
	}
}

// settling is a wall whose memory takes its time to load.
type settling struct {
	*wall
	takes time.Duration // 0: forever
}

func (w settling) Settle(ctx context.Context) error {
	if w.takes > 0 {
		time.Sleep(w.takes)
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestEndsBeforeItSettles checks that a caller that waits for memory to load hears that the sandbox ends.
func TestEndsBeforeItSettles(t *testing.T) {
	k, w := pausing(t)
	k.spec, k.wall = &spec.Sandbox{Name: "box"}, settling{w, 0}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ours, _ := keepertest.Conns(t)
	if err := k.answerPause(ctx, ours, wire.Ask{Unasked: true}); !errors.Is(err, spec.ErrStopping) {
		t.Error(err)
	}
	if w.still.Load() {
		t.Error("it stands still")
	}
}

// TestSettlingIsNoSaving checks that the time to load memory does not count as time of a save: the next
// one would be delayed by a multiple of it.
func TestSettlingIsNoSaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, w := pausing(t)
		k.saver.wall = settling{w, time.Minute}
		must(t, k.saver.saveLast(t.Context()))
		if k.saver.lastCost >= time.Minute {
			t.Errorf("it cost %v", k.saver.lastCost)
		}
	})
}
