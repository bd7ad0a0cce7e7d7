package policy

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
)

// Budget limits how much the rules with one target let out while the sandbox exists. The
// sender keeps the count under Target. The count stays when the rule gets another Limit,
// other conditions or other layers.
//
// If several rules allow the same request, the rule with the largest budget counts. A rule
// without a budget lets out everything.
type Budget struct {
	Target string // of the rule, in one form
	Limit  int64  // in bytes
}

// budget returns the budget of a rule; nil if it has none.
func (r *Rule) budget() *Budget {
	if r.MaxUpload == 0 {
		return nil
	}
	return &Budget{Target: r.Target.String(), Limit: r.MaxUpload}
}

// roomFor returns how much a budget allows in all.
func (b *Budget) roomFor() int64 {
	if b == nil {
		return math.MaxInt64
	}
	return b.Limit
}

// UploadLimit returns how much a rule lets out.
func (r *Rule) UploadLimit() int64 {
	if r.MaxUpload == 0 {
		return math.MaxInt64
	}
	return r.MaxUpload
}

// UsedUp returns the denial that a decision becomes when its budget is used up. sent is the
// number of bytes sent so far. A decision without a budget is returned unchanged.
func (d *Decision) UsedUp(sent int64) Decision {
	if d.Budget == nil {
		return *d
	}
	rule := d.Rule
	no := d.denyFor(CauseUpload, nil)
	no.missed, no.sent = rule, sent
	return no
}

// usedUpReason is the reason of a denial for a used-up budget.
func (d *Decision) usedUpReason(what string) string {
	r := d.missed
	s := what + " is allowed, but rule " + ascii.Quote(r.String()) + " (" + r.Source.String() + ") lets out no more: the " +
		sizeText(r.MaxUpload) + " of its max_upload are used up"
	if r.Why != "" {
		s += " (" + r.Why + ")"
	}
	return s
}

// suggestMore suggests the same rule for the sandbox with a larger budget. It adds the
// rule's own budget again, or the size of the refused request if that is known and larger.
// The new rule replaces the used-up one, in any layer.
func (d *Decision) suggestMore() Suggestion {
	r := d.missed
	if len(r.HTTP.Queries) > 0 {
		return Suggestion{Note: "raise max_upload of the rule where it is written; no command can, for it has a query"}
	}
	used := max(d.sent, r.MaxUpload) // more than it lets out, if a rule for the same once had more
	more, note := *r, ""
	more.MaxUpload = addCapped(used, r.MaxUpload)
	if q := d.query.Request; q != nil { // not a connection that passes unparsed
		need := rounded(addCapped(used, q.estimateSize()))
		if need/used > maxRaise { // the sender states the length, and the user may paste without reading
			note = "the request says that it has " + sizeText(q.Body) + ": a max_upload of " + sizeText(need) + " would be needed"
		} else {
			more.MaxUpload = max(more.MaxUpload, need)
		}
	}
	s := Suggestion{Args: more.command(), PerSandbox: true, Note: note}
	if !r.Until.IsZero() && s.Note == "" {
		s.Note = "the rule that is used up ends at " + r.Until.UTC().Format(time.RFC3339) + ", and so should this: --for says when"
	}
	if q := d.query.Request; q != nil && q.Body < 0 && s.Note == "" {
		s.Note = "how long its body is was not said: it may take more"
	}
	return s
}

// estimateSize estimates the bytes it takes to send a request. It is never too low, except for
// clients that send their body in tiny HTTP/2 frames. A placeholder may be shorter than its
// secret. It returns 0 if the length of the body is unknown.
func (r *Request) estimateSize() int64 {
	if r == nil || r.Body < 0 {
		return 0
	}
	const more = 8 << 10
	head := len(r.Method) + len(r.Path) + len(r.Query) + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			head += 2*len(name) + len(v) + 4
		}
	}
	return addCapped(addCapped(r.Body, r.Body/8), int64(head)+more)
}

// rounded returns a size that is easy to read, and no smaller.
func rounded(n int64) int64 {
	unit := int64(1 << 10)
	if n >= 1<<20 {
		unit = 1 << 20
	}
	return addCapped(n, unit-1) / unit * unit
}

// maxRaise bounds the factor by which a suggestion raises a budget.
const maxRaise = 16

// addCapped adds two non-negative numbers and stops at the largest int64.
func addCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// command returns the arguments that would add the rule. It leaves out what no flag can
// express.
func (r *Rule) command() []string {
	args := allowing(r.Target.String(), r.HTTP).Args
	for _, name := range slices.Sorted(maps.Keys(r.HTTP.Headers)) {
		args = append(args, "--header", name+": "+r.HTTP.Headers[name])
	}
	if r.HTTP.MaxBody > 0 {
		args = append(args, "--max-body", sizeText(r.HTTP.MaxBody))
	}
	args = append(args, "--max-upload", sizeText(r.MaxUpload))
	if r.Why != "" {
		args = append(args, "--why", r.Why)
	}
	return args
}
