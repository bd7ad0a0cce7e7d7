package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newState(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return s
}

// addSandbox makes a sandbox, and returns a function that records events of it.
func addSandbox(t *testing.T, s *store.Store, name string, most int64) func(kind string, n int) {
	t.Helper()
	d, err := s.Create(&spec.Sandbox{Version: spec.Version, ID: store.NewID(), Name: name, Agent: "shell", CreatedAt: time.Now()})
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(d.Log("events.jsonl")), 0o700))
	l, err := audit.Open(d.Log("events.jsonl"), audit.Options{MaxBytes: most})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return func(kind string, n int) {
		t.Helper()
		must(t, l.Write(kind, map[string]any{"n": n, "text": "\u202e\x1b"}))
	}
}

// seen returns the events as SANDBOX:KIND:N.
func seen(t *testing.T, list []Event) (all []string) {
	t.Helper()
	for _, e := range list {
		var doc map[string]any
		must(t, json.Unmarshal(e.JSON(), &doc))
		if doc["sandbox"] != e.Sandbox || doc["event"] != e.Kind || doc["position"] != e.Position || strings.ContainsAny(string(e.JSON()), "\n\x1b\u202e") {
			t.Errorf("%q", e.JSON())
		}
		all = append(all, fmt.Sprintf("%s:%s:%v", e.Sandbox, e.Kind, doc["n"]))
	}
	return all
}

// rest returns all events after a position.
func rest(t *testing.T, s *store.Store, filter Filter, position string) (list []Event) {
	t.Helper()
	f, err := Open(s, filter, position)
	must(t, err)
	for more := true; more; {
		var some []Event
		some, more, err = f.Next()
		must(t, err)
		list = append(list, some...)
	}
	return list
}

// TestFeed checks that the events of two sandboxes come in order, and that each position resumes right after its
// event.
func TestFeed(t *testing.T) {
	s := newState(t)
	one, two := addSandbox(t, s, "one", 0), addSandbox(t, s, "two", 0)
	for n := range 5 {
		one("started", n)
		two("stopped", n)
	}
	all := rest(t, s, Filter{}, FromStart)
	want := []string{"one:started:0", "two:stopped:0", "one:started:1", "two:stopped:1", "one:started:2", "two:stopped:2", "one:started:3", "two:stopped:3", "one:started:4", "two:stopped:4"}
	if got := seen(t, all); !slices.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	for i, e := range all {
		if got := seen(t, rest(t, s, Filter{}, e.Position)); !slices.Equal(got, want[i+1:]) {
			t.Errorf("after %d: %v", i, got)
		}
	}
	if got := seen(t, rest(t, s, Filter{Sandbox: "two"}, FromStart)); len(got) != 5 || got[0] != "two:stopped:0" {
		t.Errorf("%v", got)
	}
	if got := seen(t, rest(t, s, Filter{Kinds: []string{"started"}}, all[3].Position)); len(got) != 3 || got[0] != "one:started:2" {
		t.Errorf("%v", got)
	}
	now, err := Open(s, Filter{}, FromNow)
	must(t, err)
	three := addSandbox(t, s, "three", 0)
	one("saved", 9)
	three("started", 0)
	list, _, err := now.Next()
	must(t, err)
	if got := seen(t, list); !slices.Equal(got, []string{"one:saved:9", "three:started:0"}) {
		t.Errorf("%v", got)
	}
	for _, wrong := range []string{"", "x", "!", "AQ0", "Ag", strings.Repeat("A", 50)} {
		if _, err := Open(s, Filter{}, wrong); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// TestGap checks that a reader learns that events are lost, and that many events come in parts.
func TestGap(t *testing.T) {
	s := newState(t)
	one := addSandbox(t, s, "one", 4096)
	one("started", 0)
	position := rest(t, s, Filter{}, FromStart)[0].Position
	for n := range 300 {
		one("saved", n)
	}
	got := seen(t, rest(t, s, Filter{Kinds: []string{"stopped"}}, position))
	if !slices.Equal(got, []string{"one:gap:<nil>"}) {
		t.Errorf("%v", got)
	}
	all := rest(t, s, Filter{}, position)
	if all[0].Kind != Gap || len(all) < 2 || seen(t, rest(t, s, Filter{}, all[0].Position))[0] != seen(t, all)[1] {
		t.Errorf("%v", seen(t, all))
	}
	two := addSandbox(t, s, "two", 0)
	for n := range 2*maxAtOnce + 1 {
		two("saved", n)
	}
	if got := rest(t, s, Filter{Sandbox: "two"}, FromStart); len(got) != 2*maxAtOnce+1 {
		t.Errorf("%d", len(got))
	}
}

// TestFollow checks that events arrive as they come, also those of new sandboxes, and signs of life.
func TestFollow(t *testing.T) {
	s := newState(t)
	one := addSandbox(t, s, "one", 0)
	f, err := Open(s, Filter{}, FromNow)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan string, 100)
	alive := make(chan bool, 1)
	ended := make(chan error)
	go func() {
		ended <- Follow(ctx, &Watch{Store: s}, f, 10*time.Millisecond, func(list []Event) error {
			for _, e := range list {
				got <- e.Sandbox + ":" + e.Kind
			}
			if list == nil {
				select {
				case alive <- true:
				default:
				}
			}
			return nil
		})
	}()
	one("started", 0)
	if x := <-got; x != "one:started" {
		t.Error(x)
	}
	addSandbox(t, s, "two", 0)("started", 0)
	if x := <-got; x != "two:started" {
		t.Error(x)
	}
	<-alive
	cancel()
	must(t, <-ended)
}
