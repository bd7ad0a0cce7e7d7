package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

func TestBlocks(t *testing.T) {
	g := plain(t, "bd-a", "bd-b", "bd-c")
	link(t, g, "bd-b", Blocks, "bd-a")
	link(t, g, "bd-c", Blocks, "bd-b")
	wantReady(t, g, "bd-a")
	_, begin, err := g.Close("bd-a", "ann", End{}, noon)
	must(t, err)
	if !slices.Equal(ids(begin), []string{"bd-b"}) {
		t.Errorf("%q can begin", ids(begin))
	}
	wantReady(t, g, "bd-b")
	if _, _, err := g.Close("bd-c", "ann", End{}, noon); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a blocked task is closed: %v", err)
	}
	_, _, err = g.Close("bd-c", "ann", End{Force: true}, noon)
	must(t, err)
	_, err = g.Reopen("bd-a", noon)
	must(t, err)
	wantReady(t, g, "bd-a")
}

// TestInforming checks that informing dependencies do not block.
func TestInforming(t *testing.T) {
	g := plain(t, "bd-a", "bd-b")
	for _, kind := range Kinds() {
		if !Kind(kind).Blocking() {
			link(t, g, "bd-b", Kind(kind), "bd-a")
			link(t, g, "bd-a", Kind(kind), "bd-b") // and may go in circles
		}
	}
	wantReady(t, g, "bd-a", "bd-b")
}

func TestParentChild(t *testing.T) {
	g := plain(t, "bd-a", "bd-e", "bd-x", "bd-y")
	link(t, g, "bd-x", ParentChild, "bd-e")
	link(t, g, "bd-y", ParentChild, "bd-x")
	wantReady(t, g, "bd-a", "bd-e", "bd-x", "bd-y")
	link(t, g, "bd-e", Blocks, "bd-a")
	wantReady(t, g, "bd-a") // a blocked epic blocks its parts
	y, _ := g.Find("bd-y")
	if got := g.Blockers(y); len(got) != 1 || got[0] != (Blocker{ID: "bd-a", Kind: Blocks, Via: "bd-e"}) {
		t.Errorf("it waits for %+v", got)
	}
	if _, err := g.Link("bd-a", Link{Kind: Blocks, On: "bd-y"}, "ann", noon); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a circle through an epic: %v", err)
	}
}

func TestNoEndOfAnEpicBeforeItsParts(t *testing.T) {
	g := plain(t, "bd-e")
	c, err := g.Add(Task{Title: "part"}, "bd-e", nil, "ann", noon)
	must(t, err)
	if c.ID != "bd-e.1" {
		t.Errorf("it is called %s", c.ID)
	}
	if _, _, err := g.Close("bd-e", "ann", End{}, noon); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("closed with open parts: %v", err)
	}
	if _, err := g.Link("bd-e.1", Link{Kind: Blocks, On: "bd-e"}, "ann", noon); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a part waits for the whole: %v", err)
	}
}

func TestConditional(t *testing.T) {
	for reason, want := range map[string][]string{
		"":                       {},
		"done":                   {},
		"failed":                 {"bd-b"},
		"Rejected by review":     {"bd-b"},
		"TIMEOUT after 3h":       {"bd-b"},
		"wontfix":                {"bd-b"},
		"abandoned for bd-other": {"bd-b"},
	} {
		g := plain(t, "bd-a", "bd-b")
		link(t, g, "bd-b", ConditionalBlocks, "bd-a")
		wantReady(t, g, "bd-a")
		_, _, err := g.Close("bd-a", "ann", End{Reason: reason}, noon)
		must(t, err)
		wantReady(t, g, want...)
		if b, _ := g.Find("bd-b"); len(want) == 0 && !g.Blockers(b)[0].Never {
			t.Errorf("%q: nobody says that it never runs", reason)
		}
	}
}

// TestDeleted checks that a deleted task has not failed, and blocks no other.
func TestDeleted(t *testing.T) {
	g := loaded(on("bd-a"), on("bd-b", "conditional-blocks", "bd-a"), on("bd-c", "blocks", "bd-a"))
	gone := on("bd-a")
	gone.Status = Tombstone
	g.Load(gone)
	wantReady(t, g, "bd-c")
	if b, _ := g.Find("bd-b"); !g.Blockers(b)[0].Never {
		t.Errorf("nobody says that it never runs: %+v", g.Blockers(b))
	}
}

func TestWaitsFor(t *testing.T) {
	for _, first := range []bool{false, true} {
		g := plain(t, "bd-e", "bd-w")
		_, err := g.Link("bd-w", Link{WaitsFor, "bd-e", first}, "ann", noon)
		must(t, err)
		wantReady(t, g, "bd-e", "bd-w") // without children it does not wait
		for range 2 {
			_, err := g.Add(Task{Title: "part", Priority: 1}, "bd-e", nil, "ann", noon)
			must(t, err)
		}
		wantReady(t, g, "bd-e.1", "bd-e.2", "bd-e")
		_, _, err = g.Close("bd-e.1", "ann", End{}, noon)
		must(t, err)
		if first {
			wantReady(t, g, "bd-e.2", "bd-e", "bd-w")
			continue
		}
		wantReady(t, g, "bd-e.2", "bd-e")
		_, _, err = g.Close("bd-e.2", "ann", End{}, noon)
		must(t, err)
		wantReady(t, g, "bd-e", "bd-w")
		if _, err := g.Link("bd-e.2", Link{Kind: Blocks, On: "bd-w"}, "ann", noon); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("a circle through a gate: %v", err)
		}
	}
}

func TestNotReady(t *testing.T) {
	later := noon.Add(time.Hour)
	for name, change := range map[string]func(*Task){
		"deferred":         func(t *Task) { t.Status = Deferred },
		"until later":      func(t *Task) { t.DeferUntil = &later },
		"pinned":           func(t *Task) { t.Pinned = true },
		"pinned by status": func(t *Task) { t.Status = Pinned },
		"ephemeral":        func(t *Task) { t.Ephemeral = true },
		"template":         func(t *Task) { t.IsTemplate = true },
		"gate":             func(t *Task) { t.Type = "gate" },
		"molecule":         func(t *Task) { t.Type = "molecule" },
		"merge request":    func(t *Task) { t.Type = "merge-request" },
		"human":            func(t *Task) { t.Labels = []string{"human"} },
		"in progress":      func(t *Task) { t.Status = InProgress },
		"somebody's own":   func(t *Task) { t.Status = "in_review" },
	} {
		t.Run(name, func(t *testing.T) {
			g := plain(t, "bd-a")
			_, err := g.Update("bd-a", "ann", false, noon, func(t *Task) error { change(t); return nil })
			must(t, err)
			wantReady(t, g)
		})
	}
	g := plain(t, "bd-a")
	_, err := g.Update("bd-a", "ann", false, noon, func(t *Task) error { t.DeferUntil = &later; return nil })
	must(t, err)
	_, err = g.Add(Task{Title: "part"}, "bd-a", nil, "ann", noon)
	must(t, err)
	wantReady(t, g) // the parts of a deferred task are deferred, too
	if got := ready(g, later); len(got) != 2 {
		t.Errorf("later %q are ready", got)
	}
	g = plain(t, "bd-h")
	_, err = g.Update("bd-h", "ann", false, noon, func(t *Task) error { t.Labels = []string{"human"}; return nil })
	must(t, err)
	if got := g.Ready(&Filter{Labels: []string{"human"}}, ByPriority, noon); len(got) != 1 {
		t.Errorf("who asks for the label gets %q", ids(got))
	}
}

func TestOrders(t *testing.T) {
	g := NewGraph()
	for _, x := range []struct {
		id       string
		priority int
		age      time.Duration
	}{{"bd-old", 0, 100 * time.Hour}, {"bd-older", 4, 200 * time.Hour}, {"bd-new", 3, time.Hour}, {"bd-newer", 1, time.Minute}, {"bd-newest", 1, time.Second}} {
		_, err := g.Add(Task{ID: x.id, Title: "x", Priority: x.priority}, "", nil, "ann", noon.Add(-x.age))
		must(t, err)
	}
	for o, want := range map[Order][]string{
		ByPriority: {"bd-old", "bd-newer", "bd-newest", "bd-new", "bd-older"},
		ByAge:      {"bd-older", "bd-old", "bd-new", "bd-newer", "bd-newest"},
		Hybrid:     {"bd-newer", "bd-newest", "bd-new", "bd-older", "bd-old"},
	} {
		if got := ids(g.Ready(&Filter{}, o, noon)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", o, got, want)
		}
	}
}

func TestClaims(t *testing.T) {
	g := plain(t, "bd-a", "bd-b")
	a, err := g.ClaimNext(&Filter{}, ByPriority, "ann", time.Minute, noon)
	must(t, err)
	if a.ID != "bd-a" || a.Status != InProgress || a.Assignee != "ann" || !a.StartedAt.Equal(noon) || !a.LeaseExpiresAt.Equal(noon.Add(time.Minute)) {
		t.Errorf("claimed %+v", a)
	}
	b, err := g.ClaimNext(&Filter{}, ByPriority, "bob", time.Minute, noon)
	must(t, err)
	if b.ID != "bd-b" {
		t.Errorf("bob got %s", b.ID)
	}
	if _, err := g.ClaimNext(&Filter{}, ByPriority, "eve", time.Minute, noon); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("eve got something: %v", err)
	}
	for what, do := range map[string]func() error{
		"claim":   func() error { _, err := g.Claim("bd-a", "bob", time.Minute, noon); return err },
		"renew":   func() error { _, err := g.Renew("bd-a", "bob", time.Minute, noon); return err },
		"release": func() error { _, err := g.Release("bd-a", "bob", false, noon); return err },
		"close":   func() error { _, _, err := g.Close("bd-a", "bob", End{}, noon); return err },
		"status": func() error {
			_, err := g.Update("bd-a", "bob", false, noon, func(t *Task) error { t.Status = Open; return nil })
			return err
		},
	} {
		if err := do(); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%s of another's task: %v", what, err)
		}
	}
	_, err = g.Renew("bd-a", "ann", time.Hour, noon.Add(59*time.Second))
	must(t, err)
	if got := ready(g, noon.Add(61*time.Second)); !slices.Equal(got, []string{"bd-b"}) {
		t.Errorf("a minute later %q are ready", got)
	}
	taken, err := g.ClaimNext(&Filter{}, ByPriority, "eve", time.Minute, noon.Add(61*time.Second))
	must(t, err)
	if taken.ID != "bd-b" || !taken.StartedAt.Equal(noon.Add(61*time.Second)) {
		t.Errorf("eve took over %+v", taken)
	}
	if _, err := g.Renew("bd-b", "bob", time.Minute, noon.Add(62*time.Second)); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("bob, who was too slow, goes on: %v", err)
	}
	if _, _, err := g.Close("bd-b", "bob", End{}, noon.Add(62*time.Second)); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("bob, who was too slow, ends it: %v", err)
	}
	_, err = g.Release("bd-b", "eve", false, noon.Add(63*time.Second))
	must(t, err)
	c, _, err := g.Close("bd-a", "ann", End{Reason: "done"}, noon.Add(64*time.Second))
	must(t, err)
	if c.LeaseExpiresAt != nil || c.Assignee != "ann" || c.CloseReason != "done" {
		t.Errorf("closed is %+v", c)
	}
	if _, _, err := g.Close("bd-a", "ann", End{Reason: "again"}, noon); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if _, err := g.Claim("bd-a", "ann", time.Minute, noon); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a closed task is claimed: %v", err)
	}
}

// TestLateRenewal checks that a slow worker that was not replaced still holds the task.
func TestLateRenewal(t *testing.T) {
	g := plain(t, "bd-a")
	_, err := g.Claim("bd-a", "ann", time.Second, noon)
	must(t, err)
	_, err = g.Renew("bd-a", "ann", time.Minute, noon.Add(time.Hour))
	must(t, err)
}

// TestPutBack checks that a task is given back with a note, once.
func TestPutBack(t *testing.T) {
	g := plain(t, "bd-a")
	_, err := g.Claim("bd-a", "ann", time.Hour, noon)
	must(t, err)
	for range 2 {
		x, err := g.PutBack("bd-a", "ann", "it stays red", noon)
		must(t, err)
		if x.Status != Open || x.Assignee != "" || x.Notes != "it stays red" {
			t.Errorf("it is %+v", x)
		}
	}
	_, err = g.Claim("bd-a", "ben", time.Hour, noon)
	must(t, err)
	if x, err := g.PutBack("bd-a", "ann", "too late", noon); err != nil || x.Assignee != "ben" || x.Notes != "it stays red" {
		t.Errorf("it is %+v, %v", x, err)
	}
	if list := g.Ready(&Filter{Except: []string{"bd-a"}}, ByPriority, noon.Add(2*time.Hour)); len(list) != 0 {
		t.Errorf("%q are ready", ids(list))
	}
}

// TestClockSetBack checks that setting the clock back does not extend a claim.
func TestClockSetBack(t *testing.T) {
	g := plain(t, "bd-a")
	_, err := g.Claim("bd-a", "ann", time.Hour, noon)
	must(t, err)
	if _, err := g.Claim("bd-a", "ben", time.Hour, noon.Add(-30*time.Minute)); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("half an hour back: %v", err)
	}
	if _, err := g.Claim("bd-a", "ben", time.Hour, noon.AddDate(-1, 0, 0)); err != nil {
		t.Errorf("a year back: %v", err)
	}
	if _, err := g.Renew("bd-a", "ann", time.Hour, noon.AddDate(-1, 0, 0)); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("who had it goes on: %v", err)
	}
}

// TestHooked checks that a hooked task never expires, and that the command in the hint of a
// refused claim frees it.
func TestHooked(t *testing.T) {
	for _, force := range []bool{false, true} {
		g := plain(t, "bd-a")
		_, err := g.Update("bd-a", "ann", false, noon, func(t *Task) error { t.Status, t.Assignee = Hooked, "ann"; return nil })
		must(t, err)
		if _, err := g.Claim("bd-a", "bob", time.Minute, noon); !errors.Is(err, spec.ErrConflict) || spec.Hint(err) != "wait for them, or take it from them: bothy task claim --release --force bd-a" {
			t.Errorf("bob claims it: %v (%s)", err, spec.Hint(err))
		}
		if _, err := g.Release("bd-a", "bob", false, noon); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "held by ann, not by bob") {
			t.Errorf("bob releases it: %v", err)
		}
		who := map[bool]string{false: "ann", true: "bob"}[force]
		x, err := g.Release("bd-a", who, force, noon)
		must(t, err)
		if x.Status != Open || x.Assignee != "" {
			t.Errorf("released is %+v", x)
		}
	}
}

func TestAssigned(t *testing.T) {
	g := plain(t, "bd-a")
	_, err := g.Update("bd-a", "ann", false, noon, func(t *Task) error { t.Assignee = "bob"; return nil })
	must(t, err)
	wantReady(t, g, "bd-a")
	if _, err := g.ClaimNext(&Filter{}, ByPriority, "ann", time.Minute, noon); !errors.Is(err, spec.ErrNotFound) || spec.Hint(err) == "" {
		t.Errorf("ann got bob's: %v", err)
	}
	if _, err := g.Claim("bd-a", "ann", time.Minute, noon); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("ann took bob's: %v", err)
	}
	_, err = g.ClaimNext(&Filter{}, ByPriority, "bob", time.Minute, noon)
	must(t, err)
}

// TestPartsFirst checks that a worker gets the parts first, and the whole when they are done.
func TestPartsFirst(t *testing.T) {
	g := plain(t, "bd-e")
	_, err := g.Add(Task{Title: "part", Priority: 4}, "bd-e", nil, "ann", noon)
	must(t, err)
	wantReady(t, g, "bd-e", "bd-e.1")
	for _, want := range []string{"bd-e.1", "bd-e"} {
		x, err := g.ClaimNext(&Filter{}, ByPriority, "ann", time.Minute, noon)
		must(t, err)
		if x.ID != want {
			t.Errorf("given %s, not %s", x.ID, want)
		}
		_, _, err = g.Close(x.ID, "ann", End{}, noon)
		must(t, err)
	}
}

func TestTooLarge(t *testing.T) {
	g := plain(t, "bd-a")
	_, err := g.Update("bd-a", "ann", false, noon, func(t *Task) error { t.Notes = string(make([]byte, MaxDocument/10)); return nil })
	if !errors.Is(err, spec.ErrUsage) { // a zero is six bytes in JSON
		t.Errorf("%v", err)
	}
}

// TestPinnedPart checks that a pinned part is not waited for, and opens no gate.
func TestPinnedPart(t *testing.T) {
	g := plain(t, "bd-e", "bd-w", "bd-p", "bd-o")
	link(t, g, "bd-p", ParentChild, "bd-e")
	link(t, g, "bd-o", ParentChild, "bd-e")
	_, err := g.Link("bd-w", Link{WaitsFor, "bd-e", true}, "ann", noon)
	must(t, err)
	_, err = g.Update("bd-p", "ann", false, noon, func(t *Task) error { t.Status = Pinned; return nil })
	must(t, err)
	wantReady(t, g, "bd-e", "bd-o")
	_, _, err = g.Close("bd-o", "ann", End{}, noon)
	must(t, err)
	wantReady(t, g, "bd-e", "bd-w")
}

// TestManyWholes checks that a task with many wholes waits for each of them: the bound is on levels, not
// on their number.
func TestManyWholes(t *testing.T) {
	for name, last := range map[string]Task{
		"put off": {Status: Deferred},
		"blocked": {Status: Open, Dependencies: []Dependency{{TaskID: "bd-last", DependsOnID: "bd-0", Kind: Blocks}}},
	} {
		g, part := NewGraph(), &Task{ID: "bd-part", Title: "x", Status: Open}
		last.ID, last.Title = "bd-last", "x"
		g.Load(&last)
		for i := range maxDepth {
			id := fmt.Sprint("bd-", i)
			g.Load(&Task{ID: id, Title: "x", Status: Open})
			part.Dependencies = append(part.Dependencies, Dependency{TaskID: part.ID, DependsOnID: id, Kind: ParentChild})
		}
		part.Dependencies = append(part.Dependencies, Dependency{TaskID: part.ID, DependsOnID: last.ID, Kind: ParentChild})
		g.Load(part)
		if s := g.State(part, noon); s.Ready {
			t.Errorf("the last whole is %s: %+v", name, s)
		}
	}
}
