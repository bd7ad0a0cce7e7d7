package loop

import (
	"cmp"
	"fmt"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
)

// Seat identifies the owner of a place: an agent, or one of several workers. A worker has a place of its
// own for the first agent, and another one for each agent that takes turns with it.
type Seat struct {
	Agent  string `json:"agent,omitempty"`
	Worker int    `json:"worker,omitempty"` // from 1; 0: the only worker
}

// Who names the agent or worker of a seat, for people. first is the agent of the loop's sandbox.
func (s Seat) Who(first string) string {
	if s.Worker > 0 && s.Agent != "" {
		return fmt.Sprintf("worker %d, %s", s.Worker, s.Agent)
	}
	if s.Worker > 0 {
		return fmt.Sprintf("worker %d", s.Worker)
	}
	return cmp.Or(s.Agent, first)
}

// seatOf returns the seat of an iteration, if agents have places of their own.
func seatOf(p *loopplan.Plan, iteration int) (s Seat) {
	if len(p.Agents) > 0 {
		s.Agent = p.AgentOf(iteration)
	}
	return s
}

// workerSeat returns the seat of a worker in one of its own iterations: its own place, or its
// place for an agent that takes turns with the first.
func workerSeat(p *loopplan.Plan, worker, turn int) Seat {
	s := Seat{Worker: worker}
	if a := p.AgentOf(turn); a != p.Agent {
		s.Agent = a
	}
	return s
}
