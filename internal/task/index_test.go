package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// knotted is a graph, as an agent could make it, in which it is hard to find the ready tasks. A task has
// 440 parts. 49 tasks, each a part of the one before, wait for all of these; the last has 400 parts. 100
// tasks wait for nothing.
func knotted(t testing.TB) (g *Graph, plain []string) {
	t.Helper()
	g = NewGraph()
	add := func(id, parent string, more ...Dependency) {
		n := &Task{ID: id, Title: id, Status: Open, Type: "task", CreatedAt: noon, Dependencies: more}
		if parent != "" {
			n.Dependencies = append(n.Dependencies, Dependency{TaskID: id, DependsOnID: parent, Kind: ParentChild, CreatedAt: noon})
		}
		g.Load(n)
	}
	add("bd-whole", "")
	for i := range 440 {
		add(fmt.Sprint("bd-part", i), "bd-whole")
	}
	above := ""
	for i := range 49 {
		id := fmt.Sprint("bd-chain", i)
		add(id, above, Dependency{TaskID: id, DependsOnID: "bd-whole", Kind: WaitsFor, CreatedAt: noon})
		above = id
	}
	for i := range 400 {
		add(fmt.Sprint("bd-leaf", i), above)
	}
	for i := range 100 {
		plain = append(plain, fmt.Sprint("bd-plain", i))
		add(plain[i], "")
	}
	return g, plain
}

// size returns the number of tasks and dependencies.
func (g *Graph) size() int {
	n := len(g.tasks)
	for _, t := range g.tasks {
		n += len(t.Dependencies)
	}
	return n
}

// TestStepsOfReady checks that the cost of finding ready tasks grows in proportion to the tasks:
// others wait meanwhile.
func TestStepsOfReady(t *testing.T) {
	g, plain := knotted(t)
	if got := len(g.Ready(&Filter{}, ByPriority, noon)); got != 541 {
		t.Errorf("%d are ready", got)
	}
	if g.steps > 4*g.size() {
		t.Errorf("what is ready took %d steps, with %d tasks and dependencies", g.steps, g.size())
	}
	for what, close := range map[string][]string{"plain tasks": plain, "parts that others wait for": parts(100)} {
		g, _ := knotted(t)
		closed, _, err := g.CloseAll(t.Context(), close, "ann", End{}, noon)
		must(t, err)
		if len(closed) != 100 {
			t.Errorf("%d %s are closed", len(closed), what)
		}
		if g.steps > 10*g.size() {
			t.Errorf("to close 100 %s took %d steps, with %d tasks and dependencies", what, g.steps, g.size())
		}
	}
}

func parts(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint("bd-part", i))
	}
	return ids
}

// TestIndexIsTrue checks that after any changes the index equals a new one.
func TestIndexIsTrue(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		g, now := NewGraph(), noon
		for range 120 {
			now = now.Add(time.Duration(r.IntN(30)) * time.Second)
			what, err := step(r, g, now)
			if err != nil { // a store would drop this half of a change
				kept := NewGraph()
				for _, x := range g.All() {
					kept.Load(x)
				}
				g = kept
			}
			again := NewGraph()
			for _, x := range g.All() {
				again.Load(x)
			}
			for _, x := range g.All() {
				if got, want := g.State(x, now), again.State(x, now); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d, after %s: %s is %+v, not %+v", seed, what, x.ID, got, want)
				}
			}
		}
	}
}

// TestCloseAll checks that several tasks are closed in the given order, or none, and that the work stops
// when the caller is gone.
func TestCloseAll(t *testing.T) {
	g := plain(t, "bd-a", "bd-b", "bd-c", "bd-d")
	link(t, g, "bd-b", Blocks, "bd-a")
	link(t, g, "bd-c", Blocks, "bd-b")
	if _, _, err := g.CloseAll(t.Context(), []string{"bd-b", "bd-a"}, "ann", End{}, noon); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("in the wrong order: %v", err)
	}
	closed, begin, err := g.CloseAll(t.Context(), []string{"bd-a", "bd-b", "bd-a"}, "ann", End{}, noon)
	must(t, err)
	if !slices.Equal(ids(closed), []string{"bd-a", "bd-b", "bd-a"}) || !slices.Equal(ids(begin), []string{"bd-c"}) {
		t.Errorf("closed %q, and %q can begin", ids(closed), ids(begin))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := g.CloseAll(ctx, []string{"bd-d"}, "ann", End{}, noon); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for it: %v", err)
	}
}

func BenchmarkReady(b *testing.B) {
	for b.Loop() {
		g, _ := knotted(b)
		g.Ready(&Filter{}, ByPriority, noon)
	}
}

func BenchmarkCloseAll(b *testing.B) {
	for b.Loop() {
		g, plain := knotted(b)
		_, _, err := g.CloseAll(b.Context(), plain, "ann", End{}, noon)
		must(b, err)
	}
}
