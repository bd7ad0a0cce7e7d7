package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

// Policy is a compiled set of rules. It never changes, and may be used by any number of goroutines at
// once. A change of rules makes a new Policy with a new generation.
type Policy struct {
	generation uint64
	rules      []*Rule // of all layers, in the order of layers
	sources    []Source

	allow, deny *table
	narrow      *table // the project's own allow list; nil: no list
	open        bool   // the default is allow
	inspectAll  bool
	ends        []time.Time // when rules end, ascending
}

// Compile makes a policy of layers. The order of layers, and of rules within them, does not matter.
// Rules count until they end, so the result does not depend on the time. generation is the caller's
// number for this set; decisions carry it.
//
// Every rule and block is checked again; errors are of class [spec.ErrUsage],
// and [spec.ErrNotFound] for an unknown preset.
func Compile(generation uint64, inputs ...Input) (*Policy, error) {
	p := &Policy{generation: generation}
	var all []sourced
	for _, in := range inputs {
		list, err := checkLayer(in)
		if err != nil {
			return nil, &spec.Error{Op: in.Layer.String() + " policy", Err: err}
		}
		for _, s := range list {
			if !slices.ContainsFunc(all, func(o sourced) bool { return o.source == s.source && s.source.Preset != "" }) {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b sourced) int { return CompareSource(a.source, b.source) })
	p.collect(all)
	return p, nil
}

// checkLayer checks one layer and returns it with its presets.
func checkLayer(in Input) ([]sourced, error) {
	if in.Layer < LayerUser || in.Layer > LayerProject || in.Layer == LayerPreset {
		return nil, spec.Errorf(spec.ErrUsage, "layer %d cannot be given", in.Layer)
	}
	if err := in.Block.Check(); err != nil {
		return nil, err
	}
	if in.Layer == LayerProject {
		if err := in.Block.checkProject(nowhere); err != nil {
			return nil, err
		}
	}
	return expand(in)
}

func CompareSource(a, b Source) int {
	return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Preset, b.Preset))
}

// collect fills the tables.
func (p *Policy) collect(all []sourced) {
	var allow, deny, narrow []*Rule
	openBy, closedBy, narrows := false, false, false
	for _, s := range all {
		openBy = openBy || s.block.Default == Allow
		closedBy = closedBy || s.block.Default == Deny
		p.inspectAll = p.inspectAll || s.block.InspectAll
		if !slices.Contains(p.sources, s.source) {
			p.sources = append(p.sources, s.source)
		}
		deny = append(deny, p.copyRules(s.source, s.block.Deny)...)
		rules := p.copyRules(s.source, s.block.Allow)
		if s.source.Layer != LayerProject {
			allow = append(allow, rules...)
			continue
		}
		narrow = append(narrow, rules...)
		narrows = narrows || len(s.block.Allow)+len(s.block.Presets) > 0
	}
	p.open = openBy && !closedBy
	p.allow, p.deny = newTable(allow), newTable(deny)
	if narrows {
		p.narrow = newTable(narrow)
	}
	for _, r := range p.rules {
		if !r.Until.IsZero() {
			p.ends = append(p.ends, r.Until)
		}
	}
	slices.SortFunc(p.ends, time.Time.Compare)
}

// copyRules copies rules into the policy.
func (p *Policy) copyRules(src Source, rules []Rule) []*Rule {
	list := make([]*Rule, 0, len(rules))
	for _, r := range rules {
		r.Source = src
		list = append(list, &r)
	}
	p.rules = append(p.rules, list...)
	return list
}

// Generation returns the number that the policy was compiled with.
func (p *Policy) Generation() uint64 { return p.generation }

// Default returns the action for everything that no rule is about.
func (p *Policy) Default() Action {
	if p.open {
		return Allow
	}
	return Deny
}

// InspectsAll reports whether all HTTP is inspected, even where no rule needs it.
func (p *Policy) InspectsAll() bool { return p.inspectAll }

// Inspects reports whether any allowed traffic is inspected.
func (p *Policy) Inspects() bool {
	return p.inspectAll || slices.ContainsFunc(p.rules, func(r *Rule) bool {
		return r.Action == Allow && (r.Inspect || !r.HTTP.IsEmpty()) || r.Action == Deny && !r.HTTP.IsEmpty()
	})
}

// Rules returns every rule with its source, including those of presets and those that have ended.
func (p *Policy) Rules() []Rule {
	list := make([]Rule, len(p.rules))
	for i, r := range p.rules {
		list[i] = *r
	}
	return list
}

// NextExpiry returns the first time after now at which a rule ends and decisions may change: flows must
// then be judged again with Still. It returns false if no rule ends.
func (p *Policy) NextExpiry(now time.Time) (time.Time, bool) {
	i, _ := slices.BinarySearchFunc(p.ends, now, func(end, now time.Time) int {
		if end.After(now) { // a rule is over at its end
			return 1
		}
		return -1
	})
	if i == len(p.ends) {
		return time.Time{}, false
	}
	return p.ends[i], true
}

// DeniedAddresses finds a rule that denies addresses at a port. While such a rule exists,
// only a component that sees the name's address can judge a connection. The gateway must
// not leave the resolving to a proxy then.
func (p *Policy) DeniedAddresses(port uint16, now time.Time) (Rule, bool) {
	for _, r := range p.rules {
		if r.Action == Deny && r.Target.Kind == target.Range && r.Target.MatchesPort(port) && r.Live(now) {
			return *r, true
		}
	}
	return Rule{}, false
}
