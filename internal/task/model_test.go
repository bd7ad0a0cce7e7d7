package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// noon is the start time of tests.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plain makes a graph of open tasks. "b<a" makes b wait for a.
func plain(t testing.TB, words ...string) *Graph {
	t.Helper()
	g := NewGraph()
	for i, id := range words {
		_, err := g.Add(Task{ID: id, Title: "task " + id, Priority: 2}, "", nil, "ann", noon.Add(time.Duration(i)*time.Second))
		must(t, err)
	}
	return g
}

// link adds the dependency "FROM KIND ON".
func link(t testing.TB, g *Graph, from string, kind Kind, on string) {
	t.Helper()
	_, err := g.Link(from, Link{Kind: kind, On: on}, "ann", noon)
	must(t, err)
}

func ids(list []*Task) []string {
	out := []string{}
	for _, t := range list {
		out = append(out, t.ID)
	}
	return out
}

func ready(g *Graph, now time.Time) []string { return ids(g.Ready(&Filter{}, ByPriority, now)) }

func wantReady(t testing.TB, g *Graph, want ...string) {
	t.Helper()
	if got := ready(g, noon); !slices.Equal(got, want) {
		t.Errorf("ready are %q, not %q", got, want)
	}
}

// memory is a store without a disk.
type memory struct{ g *Graph }

func (m *memory) View(context.Context) (*Graph, error) { return m.g, nil }

func (m *memory) Change(_ context.Context, f func(*Graph) error) error {
	c := NewGraph()
	for _, t := range m.g.All() {
		c.Load(t)
	}
	if err := f(c); err != nil {
		return err
	}
	m.g = c
	return nil
}

// naive reports whether a task is ready, computed literally from the rules and without code of Graph.
func naive(all []*Task, id string, now time.Time) bool {
	find := func(id string) *Task {
		for _, t := range all {
			if t.ID == id {
				return t
			}
		}
		return nil
	}
	var blocked func(id string, depth int) bool
	blocked = func(id string, depth int) bool {
		t := find(id)
		for _, d := range t.Dependencies {
			on := find(d.DependsOnID)
			if on == nil {
				continue
			}
			ended := on.Status == Closed || on.Status == Pinned || on.Status == Tombstone
			switch d.Kind {
			case Blocks:
				if !ended {
					return true
				}
			case ConditionalBlocks:
				if !ended || on.Status == Closed && on.CloseReason != "failed" || on.Status == Tombstone {
					return true
				}
			case WaitsFor:
				open, shut := 0, 0
				for _, c := range all {
					for _, e := range c.Dependencies {
						if e.Kind == ParentChild && e.DependsOnID == on.ID {
							switch c.Status {
							case Closed, Tombstone:
								shut++
							case Pinned:
							default:
								open++
							}
						}
					}
				}
				any := string(d.Metadata) == `"{\"gate\":\"any-children\"}"`
				if open > 0 && (!any || shut == 0) {
					return true
				}
			case ParentChild:
				if !ended && depth < maxDepth && blocked(on.ID, depth+1) {
					return true
				}
			}
		}
		return false
	}
	var later func(id string) bool
	later = func(id string) bool {
		t := find(id)
		if t.Status == Deferred || t.DeferUntil != nil && t.DeferUntil.After(now) {
			return true
		}
		for _, d := range t.Dependencies {
			if d.Kind == ParentChild && find(d.DependsOnID) != nil && later(d.DependsOnID) {
				return true
			}
		}
		return false
	}
	t := find(id)
	free := t.Status == Open || t.Status == InProgress && t.LeaseExpiresAt != nil && !t.LeaseExpiresAt.After(now)
	return free && !t.Pinned && !t.Ephemeral && !t.IsTemplate && !slices.Contains(strings.Fields("gate molecule merge-request message agent role rig"), t.Type) &&
		!slices.Contains(t.Labels, "human") && !blocked(id, 0) && !later(id)
}

// named are IDs that tasks may depend on before they exist.
var named = []string{"bd-x", "bd-y", "bd-z"}

// step makes a random change, and returns its description.
func step(r *rand.Rand, g *Graph, now time.Time) (string, error) {
	all := g.All()
	pick := func() string {
		if len(all) == 0 {
			return "none"
		}
		return all[r.IntN(len(all))].ID
	}
	who := []string{"ann", "bob", "eve"}[r.IntN(3)]
	kinds := []Kind{Blocks, ParentChild, ConditionalBlocks, WaitsFor, Related, DiscoveredFrom, "tracks"}
	kind := kinds[r.IntN(len(kinds))]
	id := pick()
	switch r.IntN(13) {
	case 12: // an ID that other tasks may already name
		n := Task{ID: named[r.IntN(len(named))], Title: "named"}
		var links []Link
		for range r.IntN(3) {
			links = append(links, Link{Kind: kinds[r.IntN(len(kinds))], On: pick()})
		}
		_, err := g.Add(n, "", links, who, now)
		return fmt.Sprintf("add %s %+v", n.ID, links), err
	case 11:
		n := &Task{ID: fmt.Sprint("bd-i", r.IntN(5)), Title: "imported", Status: Open}
		for range r.IntN(3) {
			on := append(slices.Clone(named), pick())[r.IntN(len(named)+1)]
			n.Dependencies = append(n.Dependencies, Dependency{TaskID: n.ID, DependsOnID: on, Kind: kind, CreatedAt: now})
		}
		_, err := g.Import([]*Task{n}, true, now)
		return fmt.Sprintf("import %s %+v", n.ID, n.Dependencies), err
	case 0, 1:
		n := Task{Title: fmt.Sprint("n", r.IntN(1000)), Priority: r.IntN(5), Ephemeral: r.IntN(20) == 0, Type: []string{"task", "bug", "gate", ""}[r.IntN(4)]}
		if r.IntN(10) == 0 {
			n.Labels = []string{"human"}
		}
		parent := ""
		if r.IntN(3) == 0 && len(all) > 0 {
			parent = id
		}
		_, err := g.Add(n, parent, nil, who, now)
		return "add", err
	case 2, 3, 4:
		on := pick()
		_, err := g.Link(id, Link{kind, on, kind == WaitsFor && r.IntN(2) == 0}, who, now)
		return fmt.Sprintf("link %s %s %s", id, kind, on), err
	case 5:
		_, err := g.Unlink(id, pick(), "", now)
		return "unlink " + id, err
	case 6, 7:
		_, _, err := g.Close(id, who, End{Reason: []string{"", "failed"}[r.IntN(2)], Force: r.IntN(2) == 0}, now)
		return "close " + id, err
	case 8:
		_, err := g.Reopen(id, now)
		return "reopen " + id, err
	case 9:
		_, err := g.ClaimNext(&Filter{}, ByPriority, who, time.Duration(1+r.IntN(100))*time.Second, now)
		return "claim", err
	case 10:
		_, err := g.Release(id, who, false, now)
		return "release " + id, err
	}
	_, err := g.Update(id, who, false, now, func(t *Task) error {
		switch r.IntN(3) {
		case 0:
			until := now.Add(time.Minute)
			t.DeferUntil = &until
		case 1:
			t.Status = []Status{Open, Deferred, Blocked, Pinned, InProgress}[r.IntN(5)]
		case 2:
			t.Pinned = !t.Pinned
		}
		return nil
	})
	return "update " + id, err
}

// TestAgainstModel checks that after any changes the ready tasks are those of the rules, no tasks
// wait in a circle, and no holder loses a task.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &memory{NewGraph()}
		now := noon
		for range 150 {
			now = now.Add(time.Duration(r.IntN(30)) * time.Second)
			var what string
			err := m.Change(t.Context(), func(g *Graph) (err error) {
				what, err = step(r, g, now)
				return err
			})
			if err != nil && !errors.Is(err, spec.ErrConflict) && !errors.Is(err, spec.ErrNotFound) && !errors.Is(err, spec.ErrUsage) {
				t.Fatalf("seed %d: %s: %v", seed, what, err)
			}
			all := m.g.All()
			want := []string{}
			for _, x := range all {
				if naive(all, x.ID, now) {
					want = append(want, x.ID)
				}
			}
			got := ready(m.g, now)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, after %s: ready are %q, not %q", seed, what, got, want)
			}
			if c := m.g.Cycles(); len(c) > 0 {
				t.Fatalf("seed %d, after %s: a circle %v", seed, what, c)
			}
		}
	}
}

// TestManyTasks checks that the cost of an import grows in proportion to it: others wait for their
// tasks meanwhile.
func TestManyTasks(t *testing.T) {
	const many = 5_000
	for name, link := range map[string]func(i int) Dependency{
		"each for the next": func(i int) Dependency { return Dependency{DependsOnID: fmt.Sprint("bd-", i+1), Kind: Blocks} },
		"half for the other half": func(i int) Dependency {
			return Dependency{DependsOnID: "bd-0", Kind: []Kind{ParentChild, WaitsFor}[i%2]}
		},
	} {
		g := NewGraph()
		for i := range many {
			n := &Task{ID: fmt.Sprint("bd-", i), Title: "x", Status: Open}
			if i > 0 {
				d := link(i)
				d.TaskID = n.ID
				n.Dependencies = []Dependency{d}
			}
			g.Load(n)
		}
		k := findKnots(g)
		if len(k.found) > 0 {
			t.Errorf("%s: %d circles", name, len(k.found))
		}
		if k.steps > 5*many {
			t.Errorf("%s: %d steps for %d tasks", name, k.steps, many)
		}
	}
}

// TestPutOffFarUp checks that only a bounded number of levels is searched for a deferred whole.
func TestPutOffFarUp(t *testing.T) {
	g := NewGraph()
	for i := range maxDepth + 2 {
		n := &Task{ID: fmt.Sprint("bd-", i), Title: "x", Status: Open}
		if i == 0 {
			n.Status = Deferred
		} else {
			n.Dependencies = []Dependency{{TaskID: n.ID, DependsOnID: fmt.Sprint("bd-", i-1), Kind: ParentChild}}
		}
		g.Load(n)
	}
	wantReady(t, g, fmt.Sprint("bd-", maxDepth+1))
}

// TestCyclesOfTwoHundred checks with two hundred random tasks that exactly those dependencies are
// refused that close a circle, as found by a naive search.
func TestCyclesOfTwoHundred(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	g := NewGraph()
	for i := range 200 {
		_, err := g.Add(Task{ID: fmt.Sprint("bd-", i), Title: "x"}, "", nil, "ann", noon)
		must(t, err)
	}
	edges := map[string][]string{}
	reaches := func(from, to string) bool {
		seen := map[string]bool{}
		var walk func(string) bool
		walk = func(at string) bool {
			if at == to {
				return true
			}
			if seen[at] {
				return false
			}
			seen[at] = true
			return slices.ContainsFunc(edges[at], walk)
		}
		return walk(from)
	}
	refused := 0
	m := &memory{g}
	for range 900 {
		from, on := fmt.Sprint("bd-", r.IntN(200)), fmt.Sprint("bd-", r.IntN(200))
		err := m.Change(t.Context(), func(g *Graph) error {
			_, err := g.Link(from, Link{Kind: []Kind{Blocks, ConditionalBlocks}[r.IntN(2)], On: on}, "ann", noon)
			return err
		})
		circle := reaches(on, from)
		if circle != errors.Is(err, spec.ErrConflict) {
			t.Fatalf("%s on %s: circle %t, but %v", from, on, circle, err)
		}
		if circle {
			refused++
		} else {
			edges[from] = append(edges[from], on)
		}
	}
	if refused < 50 || refused > 850 {
		t.Errorf("%d were refused: the test tests nothing", refused)
	}
	t.Logf("%d of 900 dependencies were refused", refused)
}

// TestChildNumbers checks that after a child with a made-up number the next one gets a free
// number.
func TestChildNumbers(t *testing.T) {
	g, now := NewGraph(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, id := range []string{"bd-a", "bd-a.9223372036854775807", "bd-a.1000000001"} {
		if _, err := g.Add(Task{ID: id, Title: id}, "", nil, "me", now); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for range 3 {
		c, err := g.Add(Task{Title: "child"}, "bd-a", nil, "me", now)
		if err != nil || seen[c.ID] {
			t.Fatalf("%v, %v", c, err)
		}
		seen[c.ID] = true
	}
	if !seen["bd-a.1"] || !seen["bd-a.2"] || !seen["bd-a.3"] {
		t.Errorf("%v", seen)
	}
}
