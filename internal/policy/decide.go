package policy

import (
	"net/netip"
	"time"

	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/policy/specialaddr"
)

// Stage is the moment of a flow at which a question is asked.
type Stage uint8

// The stages, in the order of a flow.
const (
	// StageLookup asks whether a name may be known at all: whether it can be reached at any port.
	StageLookup Stage = iota + 1
	// StageConnect asks whether a connection may be made, to a name and port or to a literal address and
	// port.
	StageConnect
	// StageDial asks whether the resolved address of a name may be dialled. It includes the question of
	// StageConnect.
	StageDial
	// StageRequest asks whether an HTTP request may be sent. Name or address and port are those of its
	// flow.
	StageRequest
	// StageGit asks whether a git command may be sent over SSH.
	StageGit
)

func (s Stage) String() string {
	names := [...]string{"unknown", "lookup", "connect", "dial", "request", "git"}
	if int(s) < len(names) {
		return names[s]
	}
	return names[0]
}

// Query is one question. A query with a field that does not fit its stage cannot be
// understood, and is denied.
type Query struct {
	Stage   Stage
	Name    string      // the host name; empty for a literal address
	Addr    netip.Addr  // the literal address or, at StageDial, the resolved one
	Port    uint16      // zero only at StageLookup
	Request *Request    // only at StageRequest
	Git     *GitRequest // at StageGit, and at StageDial if the name is dialled for it
	Now     time.Time   // never zero: rules end
}

// subject is a question that was understood.
type subject struct {
	name       string // clean; empty for an address
	addr       netip.Addr
	port       uint16
	now        time.Time
	guard      bool               // private name: a rule must name it
	block      *specialaddr.Range // special address: a rule must be within it
	req        judged             // its Request is nil except at StageRequest
	git        *GitRequest        // a command of git that is asked about
	repository string             // of that, clean
}

// understand turns a question into a subject.
func (q *Query) understand(s *subject) Cause {
	s.addr, s.port, s.now = q.Addr, q.Port, q.Now
	named, literal := q.Name != "", q.Addr.IsValid()
	ok := !q.Now.IsZero() && (q.Port != 0) == (q.Stage != StageLookup) && (q.Request != nil) == (q.Stage == StageRequest) &&
		(q.Git != nil || q.Stage != StageGit) && (q.Git == nil || q.Stage == StageGit || q.Stage == StageDial)
	switch q.Stage {
	case StageLookup:
		ok = ok && named && !literal
	case StageConnect, StageRequest, StageGit:
		ok = ok && named != literal
	case StageDial:
		ok = ok && named && literal
	default:
		ok = false
	}
	if !ok || q.Addr.Zone() != "" {
		return CauseQuestion
	}
	switch {
	case named && literal:
		s.block = specialaddr.Find(q.Addr)
	case literal:
		s.block = specialaddr.FindInside(q.Addr)
	}
	if named {
		name, err := hostname.Clean(q.Name)
		if err != nil || hostname.IsUnroutable(name) {
			return CauseName
		}
		s.name, s.guard = name, hostname.IsPrivate(name)
	}
	switch {
	case q.Request != nil:
		return s.readRequest(q.Request)
	case q.Git != nil:
		return s.readCommand(q.Git)
	}
	return CauseNone
}

// Decide answers a question. It never fails: a question that it cannot understand is denied. It takes
// some microseconds and does not allocate for clean names.
func (p *Policy) Decide(q Query) Decision {
	d := Decision{Generation: p.generation, query: q, policy: p}
	var s subject
	if cause := q.understand(&s); cause != CauseNone {
		return d.denyFor(cause, nil)
	}
	switch q.Stage {
	case StageLookup:
		return p.lookup(&s, d)
	case StageDial:
		return p.judgeAddress(&s, d)
	default:
		return p.judgeSubject(&s, d)
	}
}
