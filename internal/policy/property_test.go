package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/policy/target"
)

// seed is fixed, so that a failure can be repeated.
const seed = 20261120

// always runs a property on many random policies and questions.
func always(t *testing.T, property func(t *testing.T, c choice)) {
	t.Helper()
	n := 1000
	if testing.Short() {
		n = 100
	}
	for i := range n {
		t.Run(fmt.Sprintf("seed %d", seed+i), func(t *testing.T) { property(t, randomly(seed+uint64(i))) })
		if t.Failed() {
			return
		}
	}
}

// must compiles a random policy, or skips.
func must(t *testing.T, inputs []Input) *Policy {
	t.Helper()
	p, err := Compile(1, inputs...)
	if err != nil {
		t.Skip(err)
	}
	return p
}

func asked(c choice) []Query {
	list := make([]Query, 40)
	for i := range list {
		list[i] = randomQuery(c)
	}
	return list
}

// with returns the inputs with an additional rule in a layer.
func with(inputs []Input, l Layer, r Rule) []Input {
	inputs = slices.Clone(inputs)
	for i := range inputs {
		if inputs[i].Layer != l {
			continue
		}
		b := &inputs[i].Block
		list := &b.Deny
		if r.Action == Allow {
			list = &b.Allow
		}
		same := func(o Rule) bool { return o.Key() == r.Key() && r.Outlives(&o) && r.UploadLimit() >= o.UploadLimit() }
		if slices.ContainsFunc(*list, func(o Rule) bool { return o.Key() == r.Key() && !same(o) }) {
			continue // an existing rule covers it
		}
		*list = append(slices.DeleteFunc(slices.Clone(*list), same), r)
	}
	return inputs
}

// sameBudget compares budgets.
func sameBudget(a, b *Budget) bool { return a == b || a != nil && b != nil && *a == *b }

func TestDecideAgreesWithReference(t *testing.T) {
	always(t, func(t *testing.T, c choice) {
		inputs := randomInputs(c)
		for _, q := range asked(c)[:10] {
			compare(t, inputs, q)
		}
	})
}

// TestDenyBeatsAllow checks that a deny rule for exactly the question denies it, whatever
// the other rules.
func TestDenyBeatsAllow(t *testing.T) {
	always(t, func(t *testing.T, c choice) {
		inputs := randomInputs(c)
		layer := pick(c, LayerUser, LayerSandbox, LayerCommand, LayerProject)
		for _, q := range asked(c) {
			at := target.Target{Kind: target.Exact, Name: q.Name, Port: q.Port}
			if q.Stage == StageDial || q.Name == "" {
				if !q.Addr.IsValid() || q.Addr.Is4In6() {
					continue
				}
				p, _ := q.Addr.Prefix(q.Addr.BitLen())
				at = target.Target{Kind: target.Range, Prefix: p, Port: q.Port}
			} else if name, err := hostname.Clean(q.Name); err == nil {
				at.Name = name
			}
			p := must(t, with(inputs, layer, Rule{Action: Deny, Target: at}))
			if d := p.Decide(q); d.Allowed() {
				t.Fatalf("%+v: %s", q, d.Reason())
			}
		}
	})
}

// TestProjectOnlyNarrows checks that a project never widens: a question allowed with it is
// allowed without it.
func TestProjectOnlyNarrows(t *testing.T) {
	always(t, func(t *testing.T, c choice) {
		inputs := randomInputs(c)
		p := must(t, inputs)
		alone := must(t, inputs[:3])
		for _, q := range asked(c) {
			d, e := p.Decide(q), alone.Decide(q)
			if d.Allowed() && !e.Allowed() {
				t.Fatalf("%+v: %s; without the project %s", q, d.Reason(), e.Reason())
			}
			if d.Allowed() && smallerLimit(d.MaxBody, e.MaxBody) != d.MaxBody {
				t.Fatalf("%+v: %d bytes, without the project %d", q, d.MaxBody, e.MaxBody)
			}
			if d.Allowed() && d.Budget.roomFor() > e.Budget.roomFor() {
				t.Fatalf("%+v: budget %+v, without the project %+v", q, d.Budget, e.Budget)
			}
			if d.Allowed() && e.Inspection == InspectMust && d.Inspection != InspectMust {
				t.Fatalf("%+v: inspection %s, without the project must", q, d.Inspection)
			}
		}
	})
}

func TestMoreDenyNeverAllowsMore(t *testing.T) {
	always(t, func(t *testing.T, c choice) {
		inputs := randomInputs(c)
		layer := pick(c, LayerUser, LayerSandbox, LayerCommand, LayerProject)
		before, after := must(t, inputs), must(t, with(inputs, layer, randomRule(c, Deny)))
		for _, q := range asked(c) {
			d, e := before.Decide(q), after.Decide(q)
			if e.Allowed() && !d.Allowed() {
				t.Fatalf("%+v: first %s; then %s", q, d.Reason(), e.Reason())
			}
			if e.Allowed() && d.Inspection == InspectMust && e.Inspection != InspectMust {
				t.Fatalf("%+v: inspection first must, then %s", q, e.Inspection)
			}
		}
	})
}

// TestMoreAllowNeverDeniesMore checks that an allow rule outside the project takes nothing
// away. The connection and the total budget stay. The body limit shrinks only if the total
// budget grows. A connection that need not be inspected stays so.
func TestMoreAllowNeverDeniesMore(t *testing.T) {
	always(t, func(t *testing.T, c choice) {
		inputs := randomInputs(c)
		layer := pick(c, LayerUser, LayerSandbox, LayerCommand)
		before, after := must(t, inputs), must(t, with(inputs, layer, randomRule(c, Allow)))
		for _, q := range asked(c) {
			d, e := before.Decide(q), after.Decide(q)
			if d.Allowed() && !e.Allowed() {
				t.Fatalf("%+v: first %s; then %s", q, d.Reason(), e.Reason())
			}
			if d.Allowed() && d.Budget.roomFor() > e.Budget.roomFor() {
				t.Fatalf("%+v: budget first %+v, then %+v", q, d.Budget, e.Budget)
			}
			if d.Allowed() && d.Budget.roomFor() == e.Budget.roomFor() && smallerLimit(d.MaxBody, e.MaxBody) != d.MaxBody {
				t.Fatalf("%+v: first %d bytes, then %d", q, d.MaxBody, e.MaxBody)
			}
			if d.Allowed() && d.Inspection != InspectMust && e.Inspection == InspectMust {
				t.Fatalf("%+v: inspection first %s, then must", q, d.Inspection)
			}
		}
	})
}

func TestOrderDoesNotMatter(t *testing.T) {
	always(t, func(t *testing.T, c choice) {
		inputs := randomInputs(c)
		p := must(t, inputs)
		r := rand.New(rand.NewPCG(uint64(c(1<<30)), 2))
		shuffled := slices.Clone(inputs)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for i := range shuffled {
			b := &shuffled[i].Block
			b.Allow, b.Deny = slices.Clone(b.Allow), slices.Clone(b.Deny)
			r.Shuffle(len(b.Allow), func(i, j int) { b.Allow[i], b.Allow[j] = b.Allow[j], b.Allow[i] })
			r.Shuffle(len(b.Deny), func(i, j int) { b.Deny[i], b.Deny[j] = b.Deny[j], b.Deny[i] })
		}
		again := must(t, shuffled)
		for _, q := range asked(c) {
			d, e := p.Decide(q), again.Decide(q)
			if d.Action != e.Action || d.Cause != e.Cause || d.Inspection != e.Inspection || d.MaxBody != e.MaxBody || !sameBudget(d.Budget, e.Budget) || d.Reason() != e.Reason() {
				t.Fatalf("%+v: %s; in another order %s", q, d.Reason(), e.Reason())
			}
		}
	})
}

// TestExpiry checks that time only removes the effect of allow rules and of deny rules. At
// any time the policy is that of the rules that still count.
func TestExpiry(t *testing.T) {
	always(t, func(t *testing.T, c choice) {
		inputs := randomInputs(c)
		p := must(t, inputs)
		for _, offset := range []time.Duration{-2 * time.Hour, -time.Hour, 0, time.Hour, 2 * time.Hour} {
			now := noon.Add(offset)
			live := slices.Clone(inputs)
			for i := range live {
				b := &live[i].Block
				ended := func(r Rule) bool { return !r.Live(now) }
				b.Deny = slices.DeleteFunc(slices.Clone(b.Deny), ended)
				if live[i].Layer != LayerProject { // a project's list counts even when all its rules have ended
					b.Allow = slices.DeleteFunc(slices.Clone(b.Allow), ended)
				}
			}
			rest := must(t, live)
			for _, q := range asked(c) {
				q.Now = now
				if d, e := p.Decide(q), rest.Decide(q); d.Action != e.Action || d.Inspection != e.Inspection || d.MaxBody != e.MaxBody || !sameBudget(d.Budget, e.Budget) {
					t.Fatalf("%+v: %s; without what has ended %s", q, d.Reason(), e.Reason())
				}
			}
		}
	})
}

// TestNextExpiry checks that nothing changes between one expiry and the next.
func TestNextExpiry(t *testing.T) {
	always(t, func(t *testing.T, c choice) {
		p := must(t, randomInputs(c))
		from := noon.Add(-3 * time.Hour)
		for range 4 {
			next, ok := p.NextExpiry(from)
			if !ok {
				next = from.Add(time.Hour)
			}
			if !next.After(from) {
				t.Fatalf("after %s comes %s", from, next)
			}
			for _, q := range asked(c)[:10] {
				q.Now = from
				d := p.Decide(q)
				q.Now = next.Add(-time.Nanosecond)
				if e := p.Decide(q); d.Action != e.Action {
					t.Fatalf("%+v: at %s %s; later %s", q, from, d.Reason(), e.Reason())
				}
			}
			if !ok {
				break
			}
			from = next
		}
	})
}

// TestStagesNest checks that a question allowed at one stage was allowed at the earlier
// ones.
func TestStagesNest(t *testing.T) {
	always(t, func(t *testing.T, c choice) {
		p := must(t, randomInputs(c))
		for _, q := range asked(c) {
			if d := p.Decide(q); !d.Allowed() || q.Stage == StageLookup {
				continue
			}
			connect := Query{Stage: StageConnect, Name: q.Name, Addr: q.Addr, Port: q.Port, Now: q.Now}
			if q.Stage == StageDial {
				connect.Addr = netip.Addr{}
			}
			if d := p.Decide(connect); !d.Allowed() {
				t.Fatalf("%+v is allowed, but not the connection: %s", q, d.Reason())
			}
			if q.Name == "" {
				continue
			}
			if d := p.Decide(Query{Stage: StageLookup, Name: q.Name, Now: q.Now}); !d.Allowed() {
				t.Fatalf("%+v is allowed, but not the lookup: %s", q, d.Reason())
			}
		}
	})
}

// TestStillAgreesWithDecide checks that a flow may go on exactly as long as it could begin.
func TestStillAgreesWithDecide(t *testing.T) {
	always(t, func(t *testing.T, c choice) {
		p := must(t, randomInputs(c))
		for _, q := range asked(c) {
			if (q.Stage != StageDial || q.Name == "") && (q.Stage != StageConnect || q.Name != "") {
				continue
			}
			f := Flow{Name: q.Name, Addr: q.Addr, Port: q.Port, Seen: c(2) == 0, Git: q.Git}
			d, e := p.Decide(q), p.Still(f, q.Now)
			want := d.Allowed() && (f.Seen || d.Inspection != InspectMust)
			if e.Allowed() != want {
				t.Fatalf("%+v: %s; still: %s", q, d.Reason(), e.Reason())
			}
		}
	})
}
