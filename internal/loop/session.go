package loop

import (
	"strings"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/spec"
)

// sessionOf returns the session that the agent of an iteration continues, if the agent is to keep its
// memory. Empty: it starts a new one.
func sessionOf(p *loopplan.Plan, s *State, iteration int) string {
	if !p.Resume {
		return ""
	}
	return s.sessions[seatOf(p, iteration).Agent]
}

// remember keeps the session of an iteration that ended well. It drops a session in which the agent
// failed, because the agent might fail in the same way for ever. A used-up allowance says nothing about
// a session.
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

// isSession reports whether a session name may be passed to an agent. The name came from an agent, and
// must not look like an option.
func isSession(name string) bool {
	const most = 200
	return name != "" && len(name) <= most && name[0] != '-' && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:-", r))
	})
}

// memoryOf tells the agent where to find the earlier work.
func memoryOf(session string) string {
	if session == "" {
		return "You begin with a fresh memory: what\nearlier iterations did is in the files."
	}
	return "You go on with the session of\nthe last one: the files count, and may differ from what you remember."
}
