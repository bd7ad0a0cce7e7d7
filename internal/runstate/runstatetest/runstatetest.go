// Package runstatetest makes runs and sandboxes for tests.
package runstatetest

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// EmptyEngine returns an engine without any sandbox.
func EmptyEngine(t testing.TB) *engine.Engine {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "s"))
	must(t, err)
	return &engine.Engine{Store: st}
}

// Sandbox makes a sandbox that was never started, and returns its ID.
func Sandbox(t testing.TB, st *store.Store, name string) string {
	t.Helper()
	sb := &spec.Sandbox{Version: spec.Version, ID: store.NewID(), Name: name, Agent: "shell", Template: spec.TemplateHost}
	_, err := st.Create(sb)
	must(t, err)
	return sb.ID
}

// Names returns the names of all sandboxes, sorted.
func Names(t testing.TB, st *store.Store) (list []string) {
	t.Helper()
	all, err := st.List()
	must(t, err)
	for _, sb := range all {
		list = append(list, sb.Name)
	}
	slices.Sort(list)
	return list
}

// Append records events in a run, and returns its host.
func Append(t testing.TB, r *run.Run, events ...run.Event) *run.Host {
	t.Helper()
	h, _, err := r.Host()
	must(t, err)
	for _, ev := range events {
		_, err = h.Append(ev.Type, run.ActorHost, ev.Data)
		must(t, err)
	}
	return h
}

// Event returns an event for [Append].
func Event(t testing.TB, kind string, data any) run.Event {
	t.Helper()
	b, err := json.Marshal(data)
	must(t, err)
	return run.Event{Type: kind, Data: b}
}

// Wait is a run that waits for models if OK is true.
type Wait struct {
	run.Delay
	OK bool
}

// Waits returns the delay.
func (w Wait) Waits() (run.Delay, bool) { return w.Delay, w.OK }

// Denied reports whether the delay has begun.
func (w Wait) Denied() bool { return !w.Since.IsZero() }
