package loop

import (
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// session is what the agent of an iteration goes on with, if it is to remember what it
// did before; empty: it begins with a fresh memory.
func (p *Plan) session(s *State, iteration int) string {
	if !p.Resume {
		return ""
	}
	return s.sessions[p.seatOf(iteration).Agent]
}

// remember keeps the session of an iteration that ended well. One in which the agent
// failed is not gone on with, or it might fail in the same way for ever; an allowance that
// was used up says nothing of a session.
func (s *State) remember(w Work) {
	switch {
	case w.Verdict == spec.VerdictLimit:
	case w.Verdict == spec.VerdictOK && isSession(w.Session):
		if s.sessions == nil {
			s.sessions = map[string]string{}
		}
		s.sessions[s.Agent] = w.Session
	default:
		delete(s.sessions, s.Agent)
	}
}

// isSession tells whether an agent may be given this as the name of a session: it was
// told by an agent, and may not be taken for an option.
func isSession(name string) bool {
	const most = 200
	return name != "" && len(name) <= most && name[0] != '-' && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:-", r))
	})
}

// memoryOf tells the agent what it can go by.
func memoryOf(session string) string {
	if session == "" {
		return "You begin with a fresh memory: what\nearlier iterations did is in the files."
	}
	return "You go on with the session of\nthe last one: what is in the files counts, and may be otherwise than you remember."
}
