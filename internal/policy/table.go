package policy

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/policy/target"
)

// table finds the rules of one action that are about a subject, without looking at the others. It finds
// names by walking up the labels, and addresses by one lookup for each length of prefix.
type table struct {
	exact, one, deep map[string][]entry
	all              []entry
	nets             map[netip.Prefix][]entry
	bits4, bits6     []int // lengths in nets, longest first

	base *table // has more rules; nil: no more
	gone *Rule  // the rule of base that does not count
}

// withRule returns the table with one more rule, and without the table with one rule less. Both
// share it.
func (t *table) withRule(r *Rule) *table {
	more := newTable([]*Rule{r})
	more.base = t
	return more
}

func (t *table) withoutRule(r *Rule) *table { return &table{base: t, gone: r} }

// baseRules yields the rules of the table beneath.
func (t *table) baseRules(yield func(*entry) bool) (*table, func(*entry) bool) {
	return t.base, func(e *entry) bool { return e.rule == t.gone || yield(e) }
}

// entry is a rule ready to be compared. The fields in which most rules differ are stored
// together, so that many rules about one host are skipped quickly.
type entry struct {
	rule *Rule
	cond *cond  // nil: no conditions
	lead string // prefix of every path that an allow rule with one path admits
	port uint16 // of the target
	ends bool   // the rule has an end
	// calls says that the rule is about the calls in bodies.
	calls bool

	budget *Budget // nil: none
}

func newEntry(r *Rule) entry {
	e := entry{rule: r, cond: r.HTTP.compile(r.Action), port: r.Target.Port, ends: !r.Until.IsZero(), calls: len(r.HTTP.RPC) > 0, budget: r.budget()}
	if r.Action == Allow && e.cond != nil && len(e.cond.paths) == 1 {
		e.lead = e.cond.paths[0].Prefix()
	}
	return e
}

// counts reports whether the rule is about the subject's port, and has not ended.
func (e *entry) counts(s *subject) bool { return e.onPort(s.port) && e.isLive(s.now) }

func (e *entry) onPort(port uint16) bool { return e.port == 0 || e.port == port }

func (e *entry) isLive(now time.Time) bool { return !e.ends || e.rule.Live(now) }

// newTable sorts the rules: if several could decide, the named one does not depend on the order in which
// they were written.
func newTable(rules []*Rule) *table {
	t := &table{
		exact: map[string][]entry{}, one: map[string][]entry{}, deep: map[string][]entry{},
		nets: map[netip.Prefix][]entry{},
	}
	type keyed struct {
		*Rule
		key string
	}
	list := make([]keyed, 0, len(rules))
	for _, r := range rules {
		list = append(list, keyed{r, r.Key()})
	}
	slices.SortStableFunc(list, func(a, b keyed) int {
		return cmp.Or(CompareSource(a.Source, b.Source), cmp.Compare(a.key, b.key), a.Until.Compare(b.Until))
	})
	for _, r := range list {
		t.addEntry(newEntry(r.Rule))
	}
	byLength := func(a, b int) int { return b - a }
	slices.SortFunc(t.bits4, byLength)
	slices.SortFunc(t.bits6, byLength)
	return t
}

func (t *table) addEntry(e entry) {
	at := e.rule.Target
	switch at.Kind {
	case target.Exact:
		t.exact[at.Name] = append(t.exact[at.Name], e)
	case target.OneLabel:
		t.one[at.Name] = append(t.one[at.Name], e)
	case target.AnyDepth:
		t.deep[at.Name] = append(t.deep[at.Name], e)
	case target.All:
		t.all = append(t.all, e)
	case target.Range:
		t.nets[at.Prefix] = append(t.nets[at.Prefix], e)
		bits := &t.bits6
		if at.Prefix.Addr().Is4() {
			bits = &t.bits4
		}
		if n := at.Prefix.Bits(); !slices.Contains(*bits, n) {
			*bits = append(*bits, n)
		}
	}
}

// rulesAbout returns the rules whose target is the subject, whatever their port.
func (t *table) rulesAbout(s *subject) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		if s.name != "" {
			t.walkName(s.name, yield)
		} else {
			t.walkAddr(s.addr, yield)
		}
	}
}

// aboutAddr returns the rules about an address.
func (t *table) aboutAddr(a netip.Addr) iter.Seq[*entry] {
	return func(yield func(*entry) bool) { t.walkAddr(a, yield) }
}

func (t *table) walkName(name string, yield func(*entry) bool) {
	if !yieldAll(t.exact[name], yield) {
		return
	}
	up := hostname.Parent(name)
	if up != "" && !yieldAll(t.one[up], yield) {
		return
	}
	for ; up != "" && len(t.deep) > 0; up = hostname.Parent(up) {
		if !yieldAll(t.deep[up], yield) {
			return
		}
	}
	if yieldAll(t.all, yield) && t.base != nil {
		base, yield := t.baseRules(yield)
		base.walkName(name, yield)
	}
}

func (t *table) walkAddr(a netip.Addr, yield func(*entry) bool) {
	bits := t.bits6
	if a.Is4() {
		bits = t.bits4
	}
	for _, n := range bits {
		if p, err := a.Prefix(n); err == nil && !yieldAll(t.nets[p], yield) {
			return
		}
	}
	if yieldAll(t.all, yield) && t.base != nil {
		base, yield := t.baseRules(yield)
		base.walkAddr(a, yield)
	}
}

// walkNames yields all rules about names.
func (t *table) walkNames(yield func(*entry) bool) {
	for _, lists := range []map[string][]entry{{"": t.all}, t.exact, t.one, t.deep} {
		for _, list := range lists {
			if !yieldAll(list, yield) {
				return
			}
		}
	}
	if t.base != nil {
		base, yield := t.baseRules(yield)
		base.walkNames(yield)
	}
}

func yieldAll(list []entry, yield func(*entry) bool) bool {
	for i := range list {
		if !yield(&list[i]) {
			return false
		}
	}
	return true
}
