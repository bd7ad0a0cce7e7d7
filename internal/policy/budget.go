package policy

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Budget is how much a rule lets out, of all that is sent by rules with its target as
// long as the sandbox exists. What was sent is kept by who sends it, under Target, and
// is not forgotten if the rule gets another Limit, other conditions or other layers.
//
// Of several rules that allow the same, the one counts that lets out most, and one
// without a budget lets out everything.
type Budget struct {
	Target string // of the rule, in one form
	Limit  int64  // in bytes
}

// budget gives that of a rule; nil if it has none.
func (r *Rule) budget() *Budget {
	if r.MaxUpload == 0 {
		return nil
	}
	return &Budget{Target: r.Target.String(), Limit: r.MaxUpload}
}

// room is how much a budget allows in all.
func (b *Budget) room() int64 {
	if b == nil {
		return math.MaxInt64
	}
	return b.Limit
}

// room is how much a rule lets out.
func (r *Rule) room() int64 {
	if r.MaxUpload == 0 {
		return math.MaxInt64
	}
	return r.MaxUpload
}

// UsedUp is the denial that a decision becomes when nothing of its budget is left, of which
// so many bytes were sent. A decision without a budget stays what it is.
func (d *Decision) UsedUp(sent int64) Decision {
	if d.Budget == nil {
		return *d
	}
	rule := d.Rule
	no := d.deny(CauseUpload, nil)
	no.missed, no.sent = rule, sent
	return no
}

// usedUpReason tells of a budget of which nothing is left.
func (d *Decision) usedUpReason(what string) string {
	r := d.missed
	s := what + " is allowed, but rule " + quote(r.String()) + " (" + r.Source.String() + ") lets out no more: the " +
		sizeText(r.MaxUpload) + " of its max_upload are used up"
	if r.Why != "" {
		s += " (" + r.Why + ")"
	}
	return s
}

// suggestMore is the same rule for the sandbox, with as much again as it lets out, or with what
// it takes to send what was asked for, if that is known and more. It counts in the place of
// the one that is used up, wherever that stands.
func (d *Decision) suggestMore() Suggestion {
	r := d.missed
	if len(r.HTTP.Queries) > 0 {
		return Suggestion{Note: "raise max_upload of the rule where it is written; no command can, for it has a query"}
	}
	used := max(d.sent, r.MaxUpload) // more than it lets out, if a rule for the same once had more
	more, note := *r, ""
	more.MaxUpload = plus(used, r.MaxUpload)
	if q := d.query.Request; q != nil { // and not a connection in which nobody looks for requests
		need := rounded(plus(used, q.size()))
		if need/used > maxRaise { // whoever sends it says how long it is, and a person may only paste
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

// size is about what it takes to send a request: no less, but for clients that send their body
// in crumbs, each of which has a frame of its own over HTTP/2. What stands for secrets may be
// shorter than they are. It is none, if nobody knows how long the body is.
func (r *Request) size() int64 {
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
	return plus(plus(r.Body, r.Body/8), int64(head)+more)
}

// rounded is a size that is easily read, and no smaller.
func rounded(n int64) int64 {
	unit := int64(1 << 10)
	if n >= 1<<20 {
		unit = 1 << 20
	}
	return plus(n, unit-1) / unit * unit
}

// maxRaise is how many times as much as before is suggested at most.
const maxRaise = 16

// plus adds what is not negative, and stays with the largest number there is.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// command gives the arguments that would add the rule. What no flag says is left out.
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
