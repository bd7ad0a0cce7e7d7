package task

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// loaded makes a graph with any content, as a store would load it.
func loaded(list ...*Task) *Graph {
	g := NewGraph()
	for _, t := range list {
		g.Load(t)
	}
	return g
}

// on makes a task that depends on others: KIND, ID, KIND, ID, ...
func on(id string, deps ...string) *Task {
	t := &Task{ID: id, Title: id, Status: Open, Type: "task", CreatedAt: noon, UpdatedAt: noon}
	for i := 0; i < len(deps); i += 2 {
		t.Dependencies = append(t.Dependencies, Dependency{TaskID: id, DependsOnID: deps[i+1], Kind: Kind(deps[i]), CreatedAt: noon})
	}
	return t
}

// TestCircleThroughNewTask checks tasks that are named before they exist: a new one must not wait
// for a task that waits for it.
func TestCircleThroughNewTask(t *testing.T) {
	for name, c := range map[string]struct {
		there []*Task
		links []Link
	}{
		"waits":                    {[]*Task{on("bd-a", "blocks", "bd-x")}, []Link{{Kind: Blocks, On: "bd-a"}}},
		"is a part":                {[]*Task{on("bd-a", "parent-child", "bd-x")}, []Link{{Kind: Blocks, On: "bd-a"}}},
		"waits for those parts":    {[]*Task{on("bd-a", "waits-for", "bd-x"), on("bd-p", "parent-child", "bd-x", "blocks", "bd-a")}, nil},
		"through another":          {[]*Task{on("bd-a", "blocks", "bd-x"), on("bd-b", "conditional-blocks", "bd-a")}, []Link{{Kind: WaitsFor, On: "bd-b"}}},
		"two that are new at once": {[]*Task{on("bd-a", "blocks", "bd-x")}, []Link{{Kind: ParentChild, On: "bd-a"}}},
	} {
		g := loaded(c.there...)
		if _, err := g.AddAll([]Task{{ID: "bd-x", Title: "x"}}, "", c.links, "ann", noon); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOldCircle checks that an old circle, whatever its origin, keeps no caller from changing tasks
// outside it, or from breaking it up.
func TestOldCircle(t *testing.T) {
	for name, change := range map[string]func(g *Graph) error{
		"another waits": func(g *Graph) error {
			_, err := g.Link("bd-c", Link{Kind: Blocks, On: "bd-d"}, "ann", noon)
			return err
		},
		"another waits for it": func(g *Graph) error {
			_, err := g.Link("bd-c", Link{Kind: Blocks, On: "bd-a"}, "ann", noon)
			return err
		},
		"it waits for another": func(g *Graph) error {
			_, err := g.Link("bd-a", Link{Kind: Blocks, On: "bd-c"}, "ann", noon)
			return err
		},
		"a new part": func(g *Graph) error {
			_, err := g.Add(Task{Title: "part"}, "bd-c", nil, "ann", noon)
			return err
		},
		"another is moved": func(g *Graph) error { _, err := g.Move("bd-c", "bd-d", "ann", noon); return err },
		"it is moved":      func(g *Graph) error { _, err := g.Move("bd-a", "bd-d", "ann", noon); return err },
		"imported": func(g *Graph) error {
			_, err := g.Import([]*Task{on("bd-e", "blocks", "bd-c")}, false, noon)
			return err
		},
		"imported again": func(g *Graph) error {
			_, err := g.Import([]*Task{on("bd-a", "blocks", "bd-b", "blocks", "bd-c")}, true, noon)
			return err
		},
		"taken apart": func(g *Graph) error { _, err := g.Unlink("bd-a", "bd-b", "", noon); return err },
	} {
		g := loaded(on("bd-a", "blocks", "bd-b"), on("bd-b", "blocks", "bd-a"), on("bd-c"), on("bd-d"))
		if err := change(g); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	g := loaded(on("bd-a", "blocks", "bd-b"), on("bd-b", "blocks", "bd-a"), on("bd-c", "blocks", "bd-d"), on("bd-d"))
	_, err := g.Link("bd-d", Link{Kind: Blocks, On: "bd-c"}, "ann", noon)
	if !errors.Is(err, spec.ErrConflict) || err.Error() != "tasks would wait for each other: bd-d → bd-c → bd-d" {
		t.Errorf("a second circle: %v", err)
	}
}

// waitsNaively returns the edges of a graph, computed literally from the rules.
func waitsNaively(all []*Task) map[edge]bool {
	there := map[string]bool{}
	for _, t := range all {
		there[t.ID] = true
	}
	edges := map[edge]bool{}
	for _, t := range all {
		for _, d := range t.Dependencies {
			if !there[d.DependsOnID] || !d.Kind.Blocking() {
				continue
			}
			edges[edge{t.ID, d.DependsOnID}] = true
			if d.Kind == WaitsFor {
				edges[edge{t.ID, "children of " + d.DependsOnID}] = true
			}
			if d.Kind == ParentChild {
				edges[edge{"children of " + d.DependsOnID, t.ID}] = true
			}
		}
	}
	return edges
}

// TestRefusedCircles checks that an import or an addition is refused if a new dependency closes a
// circle, and only then. Tasks may already be in circles, or be named before they exist.
func TestRefusedCircles(t *testing.T) {
	kinds := []Kind{Blocks, ParentChild, ConditionalBlocks, WaitsFor, Related}
	refused, taken, old := 0, 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 11))
		random := func(id string) *Task {
			n := on(id)
			for range r.IntN(3) {
				n.Dependencies = append(n.Dependencies, Dependency{TaskID: id, DependsOnID: fmt.Sprint("bd-", r.IntN(8)), Kind: kinds[r.IntN(len(kinds))], CreatedAt: noon})
			}
			return n
		}
		g := NewGraph()
		for i := range 8 {
			if r.IntN(3) > 0 {
				g.Load(random(fmt.Sprint("bd-", i)))
			}
		}
		before := waitsNaively(g.All())
		if len(g.Cycles()) > 0 {
			old++
		}
		var list []*Task
		for _, i := range r.Perm(8)[:1+r.IntN(2)] {
			list = append(list, random(fmt.Sprint("bd-", i)))
		}
		_, err := g.Import(list, true, noon)
		after := waitsNaively(g.All())
		want := false
		for e := range after {
			want = want || !before[e] && reachesNaively(after, e.to, e.from)
		}
		if want != errors.Is(err, spec.ErrConflict) {
			t.Fatalf("seed %d: a new circle: %t, but %v\n%v", seed, want, err, after)
		}
		if want {
			refused++
		} else {
			taken++
		}
	}
	if refused < 300 || taken < 300 || old < 300 {
		t.Errorf("%d were refused, %d taken, %d had a circle before: the test tests nothing", refused, taken, old)
	}
}

func reachesNaively(edges map[edge]bool, from, to string) bool {
	seen := []string{from}
	for i := 0; i < len(seen); i++ {
		if seen[i] == to {
			return true
		}
		for e := range edges {
			if e.from == seen[i] && !slices.Contains(seen, e.to) {
				seen = append(seen, e.to)
			}
		}
	}
	return false
}
