package keeper

import (
	"errors"
	"io"
	"testing"

	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// stander is a keeper of which only what has the sandbox stand still is there.
func stander(t *testing.T) (*Keeper, *wall) {
	t.Helper()
	w := &wall{}
	s := &saver{wall: w, store: layer.Store{Dir: t.TempDir()}, log: quiet(), note: func(spec.RootLayer) {}}
	return &Keeper{saver: s, wall: w, asked: make(chan struct{})}, w
}

// Whoever has a sandbox stand still and goes, or is in the way of its end, does not
// keep it standing still.
func TestStandsStill(t *testing.T) {
	for name, leave := range map[string]func(k *Keeper, client io.Closer){
		"gone":          func(_ *Keeper, c io.Closer) { _ = c.Close() },
		"it shall stop": func(k *Keeper, _ io.Closer) { close(k.asked) },
	} {
		t.Run(name, func(t *testing.T) {
			k, w := stander(t)
			k.spec = &spec.Sandbox{Name: "box"}
			ours, theirs := conns(t)
			done := make(chan error, 1)
			go func() { done <- k.stand(t.Context(), ours) }()
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
			if l := k.saver.layer(); l.SaveError != "" || l.SavedAt != nil {
				t.Errorf("the layer was saved, or could not be: %+v", l)
			}
		})
	}
	k, w := stander(t)
	ours, theirs := conns(t)
	done := make(chan error, 1)
	go func() { done <- k.stand(t.Context(), ours) }()
	must(t, theirs.Expect(wire.Reply, &struct{}{}))
	must(t, theirs.SendJSON(wire.Request, struct{}{}))
	must(t, theirs.Expect(wire.Reply, &spec.RootLayer{}))
	if w.still.Load() || k.saver.layer().SavedAt == nil {
		t.Errorf("still: %v, %+v", w.still.Load(), k.saver.layer())
	}
	_ = theirs.Close()
	must(t, <-done)
}
