package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// begun makes a run below a root of its own.
func begun(t *testing.T) (root string, r *Run) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "runs")
	r, err := Create(root, NewID("Fix: the Bug!", time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)), map[string]int{"n": 7})
	must(t, err)
	return root, r
}

func TestCreate(t *testing.T) {
	root, r := begun(t)
	if want := "fix-the-bug-2026-11-22-"; r.ID[:len(r.ID)-4] != want {
		t.Errorf("it is called %s", r.ID)
	}
	found, err := Find(root, "fix-the")
	must(t, err)
	plan := map[string]int{}
	if _, err := found.Plan(&plan); err != nil || plan["n"] != 7 {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	if _, err := Find(root, "other"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("another: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(root, newPrefix+"x"), 0o700)) // the remains of a crash
	list, err := ListOf(root, Loops)
	if must(t, err); len(list) != 1 {
		t.Errorf("%d runs", len(list))
	}
	must(t, r.Remove())
	if list, err := ListOf(root, Loops); err != nil || len(list) != 0 {
		t.Errorf("%d runs, %v", len(list), err)
	}
}

// TestSameID checks that the ID of another run, even of one that is being made, is refused, and that
// another ID is tried.
func TestSameID(t *testing.T) {
	root, r := begun(t)
	must(t, os.Mkdir(filepath.Join(root, newPrefix+"made"), 0o700))
	for _, id := range []string{r.ID, "made"} {
		if _, err := Create(root, id, nil); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, newPrefix+"made")); err != nil {
		t.Errorf("who makes it: %v", err)
	}
	plan := map[string]int{}
	if _, err := r.Plan(&plan); err != nil || plan["n"] != 7 {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	ids := []string{r.ID, "made", "third"}
	seen := map[string]bool{}
	got, err := Named("Fix it", time.Now(), func(id string) (*Run, error) {
		seen[id] = true
		return Create(root, ids[len(seen)-1], nil)
	})
	if err != nil || got.ID != "third" || len(seen) != 3 {
		t.Errorf("it is %+v, %v, after %d", got, err, len(seen))
	}
	if _, err := Named("Fix it", time.Now(), func(string) (*Run, error) { return Create(root, r.ID, nil) }); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("if there is none: %v", err)
	}
}

// TestKinds checks that flows and loops are kept apart.
func TestKinds(t *testing.T) {
	root, r := begun(t)
	f, err := CreateFlow(root, "", "words-2026-11-22-0001", nil, func(dir string) error { return os.Mkdir(filepath.Join(dir, "inputs"), 0o700) })
	must(t, err)
	if _, err := os.Stat(filepath.Join(f.Dir(), "inputs")); err != nil {
		t.Error(err)
	}
	for kind, want := range map[string][]string{Loops: {r.ID}, Flows: {f.ID}, "": {f.ID, r.ID}} {
		list, err := ListOf(root, kind)
		must(t, err)
		var got []string
		for _, r := range list {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of kind %q there are %q", kind, got)
		}
	}
	if _, err := Find(root, f.ID); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("as a loop: %v", err)
	}
	if again, err := FindOf(root, Flows, "words"); err != nil || again.Kind != Flows {
		t.Errorf("as a flow: %+v, %v", again, err)
	}
	full := errors.New("full")
	if _, err := CreateFlow(root, "", "half", nil, func(string) error { return full }); !errors.Is(err, full) {
		t.Errorf("one that could not be filled: %v", err)
	}
}

// TestRemove checks that a removed run is gone, whatever a crash leaves of it: making the next run
// sweeps that.
func TestRemove(t *testing.T) {
	root := t.TempDir()
	r, err := Create(root, "one-2026-01-01-0000", nil)
	must(t, err)
	h, _, err := r.Host()
	must(t, err)
	if err := r.Remove(); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("somebody carries it on: %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(root, gonePrefix+r.ID, "mail"), 0o700)) // of an earlier run with this name
	must(t, h.Remove())
	if list, err := ListOf(root, ""); err != nil || len(list) > 0 {
		t.Errorf("there are %v: %v", list, err)
	}
	must(t, os.MkdirAll(filepath.Join(root, gonePrefix+"two", "mail"), 0o700))
	_, err = Create(root, "three-2026-01-01-0000", nil)
	must(t, err)
	if names, _ := filepath.Glob(filepath.Join(root, ".*")); len(names) > 0 {
		t.Errorf("there are %q", names)
	}
}

// TestMakingTakesTime checks that making a run's files may take any time, wherever they are:
// another run that is made meanwhile does not sweep it.
func TestMakingTakesTime(t *testing.T) {
	root, into := filepath.Join(t.TempDir(), "runs"), t.TempDir()
	for place, want := range map[string][]string{"": {"inputs", "mail", "run.json"}, into: {"mail", "run.json"}} {
		r, err := CreateFlow(root, place, "slow", nil, func(dir string) error {
			long := time.Now().Add(-2 * abandonedAfter)
			must(t, os.Chtimes(filepath.Join(root, newPrefix+"slow"), long, long))
			quick, err := Create(root, "quick", nil)
			must(t, err)
			must(t, quick.Remove())
			return os.Mkdir(filepath.Join(dir, "inputs"), 0o700)
		})
		must(t, err)
		if _, err := os.Lstat(filepath.Join(r.Dir(), "inputs")); err != nil {
			t.Error(err)
		}
		only(t, r.dir, want...)
		must(t, r.Remove())
	}
}

func TestSlug(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"../../etc":                          "etc",
		"Ünï çödé":                           "n-d",
		"make all of the tests pass, please": "make-all-of-the-tests-pass",
		"averyveryveryveryveryverylongwordindeed": "averyveryveryveryveryverylong",
		"一": "",
	} {
		if got := Slug(text); got != want {
			t.Errorf("Slug(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestOneHost(t *testing.T) {
	_, r := begun(t)
	h, _, err := r.Host()
	must(t, err)
	if _, _, err := r.Host(); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a second host: %v", err)
	}
	if !r.Hosted() || !errors.Is(r.Remove(), spec.ErrConflict) {
		t.Error("nobody seems to have it")
	}
	h.Close()
	if r.Hosted() {
		t.Error("somebody seems to have it")
	}
}

// TestProbe checks that of many callers that check for a host, none counts as one, and none keeps a host
// from starting.
func TestProbe(t *testing.T) {
	_, r := begun(t)
	held, err := store.TryShareLock(filepath.Join(r.dir, lockName)) // a probe at this moment
	must(t, err)
	if r.Hosted() {
		t.Error("who only looks is taken for a host")
	}
	held.Unlock()
	done := make(chan struct{})
	var looking sync.WaitGroup
	for range 4 {
		looking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					r.Hosted()
				}
			}
		})
	}
	for range 200 {
		h, _, err := r.Host()
		must(t, err)
		if !r.Hosted() {
			t.Error("the host is not seen")
		}
		h.Close()
	}
	close(done)
	looking.Wait()
}

// TestTorn cuts the file at any point: the events before the cut are read, and the next host appends
// after them.
func TestTorn(t *testing.T) {
	_, r := begun(t)
	h, _, err := r.Host()
	must(t, err)
	for _, kind := range []string{"a", "b", "c"} {
		_, err := h.Append(kind, ActorHost, map[string]string{"text": "<x>\n"})
		must(t, err)
	}
	h.Close()
	file := filepath.Join(r.dir, eventsName)
	whole, err := os.ReadFile(file)
	must(t, err)
	for n := range len(whole) + 1 {
		must(t, os.WriteFile(file, whole[:n], 0o600))
		ends := 0
		for _, b := range whole[:n] {
			if b == '\n' {
				ends++
			}
		}
		h, events, err := r.Host()
		must(t, err)
		if len(events) != ends {
			t.Fatalf("%d events of %d bytes, want %d", len(events), n, ends)
		}
		_, err = h.Append("d", ActorHost, nil)
		must(t, err)
		h.Close()
		again, err := r.Events()
		if must(t, err); len(again) != ends+1 || again[ends].Type != "d" || again[ends].Seq != int64(ends)+1 {
			t.Fatalf("after %d bytes: %v", n, again)
		}
	}
}

func TestDamaged(t *testing.T) {
	_, r := begun(t)
	file := filepath.Join(r.dir, eventsName)
	for _, text := range []string{"{}\n{\"seq\":1}\n", "{\"seq\":2}\n{\"seq\":3}\n", "x\n\n"} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		events, err := r.Events()
		if err == nil || spec.Hint(err) != "bothy loop rm -f "+r.ID+" removes its record, and leaves its sandboxes" {
			t.Errorf("%q are %v, %v; hint: %s", text, events, err, spec.Hint(err))
		}
	}
}

// TestMailClock checks that later messages are read later, whatever the clock is by then.
func TestMailClock(t *testing.T) {
	_, r := begun(t)
	mail := filepath.Join(r.Dir(), mailName)
	must(t, store.WriteJSON(filepath.Join(mail, "8999999999999999999-0.json"), Message{Kind: Hint, Text: "a"}))
	must(t, store.WriteJSON(filepath.Join(mail, "no time.json"), Message{Kind: Hint, Text: "b"}))
	for _, kind := range []string{Clear, Pause} {
		must(t, r.Leave(Message{Kind: kind}))
	}
	list, err := r.Mail()
	must(t, err)
	var kinds []string
	for _, m := range list {
		kinds = append(kinds, m.Kind)
	}
	if want := []string{Hint, Clear, Pause, Hint}; !slices.Equal(kinds, want) {
		t.Errorf("heard is %q, want %q", kinds, want)
	}
}

// TestUnreadable checks that a run with an unreadable plan is listed, and hides no other run.
func TestUnreadable(t *testing.T) {
	root, r := begun(t)
	for id, plan := range map[string]string{"broken": "{", "newer": `{"version":9,"id":"newer"}`} {
		must(t, os.MkdirAll(filepath.Join(root, id), 0o700))
		must(t, os.WriteFile(filepath.Join(root, id, planName), []byte(plan), 0o600))
	}
	must(t, os.Mkdir(filepath.Join(root, "going"), 0o700)) // the remains of a removed run
	for _, kind := range []string{Loops, Flows, ""} {
		list, err := ListOf(root, kind)
		must(t, err)
		var ids []string
		for _, one := range list {
			ids = append(ids, one.ID)
		}
		want := []string{"broken", "newer"}
		if kind != Flows {
			want = append([]string{r.ID}, want...)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%q: there are %q", kind, ids)
		}
	}
	found, err := FindOf(root, Loops, "newer")
	must(t, err)
	if _, err := found.Plan(nil); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("its plan: %v", err)
	}
}

func TestMail(t *testing.T) {
	_, r := begun(t)
	for _, text := range []string{"one", "two"} {
		must(t, r.Leave(Message{Kind: Hint, Text: text, Actor: "ann"}))
	}
	list, err := r.Mail()
	must(t, err)
	var texts []string
	for _, m := range list {
		texts = append(texts, m.Text)
		must(t, r.Take(m))
	}
	if !slices.Equal(texts, []string{"one", "two"}) {
		t.Errorf("there was %v", texts)
	}
	if list, err := r.Mail(); err != nil || len(list) != 0 {
		t.Errorf("%d are left, %v", len(list), err)
	}
	if err := r.Leave(Message{Kind: Hint, Text: string(make([]byte, MaxHint+1))}); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("too long: %v", err)
	}
}
