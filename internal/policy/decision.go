package policy

import "github.com/bothy-dev/bothy/internal/policy/specialaddr"

// Inspection is how far a connection must be inspected.
type Inspection uint8

const (
	// InspectNo: bytes may pass as they are.
	InspectNo Inspection = iota
	// InspectHTTP: inspect the connection if it speaks HTTP, else let bytes pass.
	InspectHTTP
	// InspectMust: every request has to be judged. Traffic that does not speak HTTP, or
	// cannot be inspected, has to be refused.
	InspectMust
	// InspectNever: bytes must pass as they are; the client would notice an inspection.
	InspectNever
)

func (i Inspection) String() string {
	return [...]string{"no", "http", "must", "never"}[i&3]
}

// Cause is the kind of a decision's reason.
type Cause uint8

// The causes. All but CauseRule and CauseDefault are denials.
const (
	CauseNone        Cause = iota
	CauseRule              // a rule says so
	CauseDefault           // no rule applies, and the default is allow
	CauseNoRule            // no rule allows it
	CauseRequest           // the host is allowed, not this request
	CauseProject           // the project's own list leaves it out
	CauseSpecial           // the address is in a special-purpose range
	CauseName              // the name is invalid
	CauseMethod            // the method is invalid, or CONNECT
	CausePath              // the path is invalid
	CauseQueryString       // the query is invalid
	CauseAuthority         // the request is for another host than its connection
	CauseUpgrade           // the protocol of the upgrade cannot be judged
	CauseWebSocket         // the traffic after the upgrade cannot be judged
	CauseInspection        // the flow was not inspected, and now must be
	CauseUpload            // the rule's budget is used up
	CauseRepository        // the repository's name is invalid
	CauseQuestion          // the question does not fit its stage
	CauseBody              // the decision depends on the calls in the body, which has not been read
)

var causeNames = [...]string{
	"none", "rule", "default", "no-rule", "request", "project", "special-address", "name", "method", "path",
	"query", "authority", "upgrade", "websocket", "inspection", "upload", "repository",
	"question", "body",
}

// String returns the cause as a word for logs.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown"
}

// Decision is an answer. The zero Decision denies.
type Decision struct {
	Action     Action
	Cause      Cause
	Rule       *Rule // the rule that decided; nil if none did. It must not be changed
	Generation uint64
	// Inspection is set for allowed connections.
	Inspection Inspection
	// Git says that git over SSH may pass on a connection that must be inspected. Each of its commands
	// must be judged at StageGit.
	Git bool
	// MaxBody bounds the body of an allowed request; NoLimit means no bound. It must be enforced while
	// the body streams: its length may not be known before.
	MaxBody int64
	// Budget bounds the bytes sent over an allowed connection that is not inspected, or
	// with an allowed request. Nil means unlimited. It must not be changed.
	Budget *Budget

	query   Query
	policy  *Policy // the policy that made it; nil if none did
	Special *specialaddr.Range
	missed  *Rule // would have allowed another request
	ended   *Rule // allowed it before it ended
	sent    int64 // by rules with the target of one that is used up
}

// Allowed reports whether the answer is yes.
func (d *Decision) Allowed() bool { return d.Action == Allow }

// Denied is a denial as an error.
type Denied struct{ Decision }

func (d *Denied) Error() string { return d.Reason() }

func (d Decision) allowBy(by *entry) Decision {
	d.Action, d.Cause, d.MaxBody = Allow, CauseDefault, NoLimit
	if by != nil {
		d.Cause, d.Rule = CauseRule, by.rule
	}
	return d
}

func (d Decision) denyFor(c Cause, by *entry) Decision {
	d.Action, d.Cause, d.Inspection, d.Git, d.MaxBody, d.Rule = Deny, c, InspectNo, false, 0, nil
	d.Budget = nil
	if by != nil {
		d.Rule = by.rule
	}
	return d
}

// unread returns the denial for a request whose body has not been read yet.
func (d Decision) unread(e *entry) Decision {
	d = d.denyFor(CauseBody, nil)
	d.missed = e.rule
	return d
}

func (d Decision) blocked(b *specialaddr.Range) Decision {
	d = d.denyFor(CauseSpecial, nil)
	d.Special = b
	return d
}

// refuse returns the denial for a question that nothing allowed, with the reason.
func (d Decision) refuse(s *subject, g *grant) Decision {
	switch {
	case g.missed != nil: // missed reaches the address, if that is a special one
		d = d.denyFor(CauseRequest, nil)
		d.missed = g.missed.rule
	case s.name == "" && s.block != nil:
		d = d.blocked(s.block)
	default:
		d = d.denyFor(CauseNoRule, nil)
	}
	if g.ended != nil {
		d.ended = g.ended.rule
	}
	return d
}

// ToHost returns the answer about a literal address that turns out to be the host's own.
func (d Decision) ToHost() Decision { return d.blocked(&specialaddr.HostsOwn) }
