package loop

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TaskCost is the usage of one task, reviewers included.
type TaskCost struct {
	Task       string  `json:"task"`
	Iterations int     `json:"iterations"` // a repeated iteration counts once
	Tokens     int64   `json:"tokens"`     // the figure that counts
	USD        float64 `json:"usd"`
	// Metered is the same, by source.
	Metered spec.Metered `json:"metered"`
}

// TaskCosts returns the usage of each task by the events of a loop, in the order of their first claims.
// Usage without a current task belongs to no task.
func TaskCosts(events []run.Event) (list []TaskCost, err error) {
	s, err := Fold(nil)
	for _, ev := range events {
		if err != nil {
			return nil, err
		}
		before := s.stateOf(ev)
		iteration, task, tokens, usd := before.Iteration, before.Task, s.Tokens, s.USD
		if err = s.Add(ev); err != nil {
			return nil, err
		}
		if ev.Type == Took {
			task = s.stateOf(ev).Task
		}
		if task == nil {
			continue
		}
		i := slices.IndexFunc(list, func(t TaskCost) bool { return t.Task == task.ID })
		if i < 0 {
			i = len(list)
			list = append(list, TaskCost{Task: task.ID})
		}
		t := &list[i]
		if ev.Type == Iteration && s.stateOf(ev).Iteration != iteration {
			t.Iterations++
		}
		t.Tokens += s.Tokens - tokens
		t.USD += s.USD - usd
		t.Metered.Add(s.latest)
	}
	return list, err
}

// Spent is the usage of an iteration: of all its tries, and of its reviewers.
type Spent struct {
	Iteration int          `json:"iteration"`
	Worker    int          `json:"worker,omitempty"`
	Task      string       `json:"task,omitempty"`
	Agent     string       `json:"agent,omitempty"` // set if several take turns
	Model     string       `json:"model,omitempty"`
	Tokens    int64        `json:"tokens"` // the figure that counts
	USD       float64      `json:"usd"`
	Metered   spec.Metered `json:"metered"` // the same, by source
	// Seconds is the working time of the agent, and Calls the number of its tool calls.
	Seconds float64 `json:"seconds"`
	Calls   int     `json:"tool_calls"`
	Changes int     `json:"changes"` // files that it has changed in the end
}

// Ledger returns the usage of each iteration by the events of a loop, in the order in which they began.
// Usage before the first iteration belongs to none.
func Ledger(events []run.Event) (list []Spent, err error) {
	s, err := Fold(nil)
	for _, ev := range events {
		if err != nil {
			return nil, err
		}
		tokens, usd := s.Tokens, s.USD
		if err = s.Add(ev); err != nil {
			return nil, err
		}
		w := s.stateOf(ev)
		i := slices.IndexFunc(list, func(p Spent) bool { return p.Iteration == w.Iteration })
		if ev.Type == Iteration && w.Iteration > 0 {
			if i < 0 {
				i = len(list)
				list = append(list, Spent{Iteration: w.Iteration})
			}
			n, _ := s.Of(ev)
			list[i].Worker, list[i].Agent, list[i].Model = n, w.Agent, w.Model
			if w.Task != nil {
				list[i].Task = w.Task.ID
			}
		}
		if i >= 0 {
			list[i].Tokens += s.Tokens - tokens
			list[i].USD += s.USD - usd
			list[i].Metered.Add(s.latest)
			if err == nil {
				err = list[i].addWork(ev)
			}
		}
	}
	return list, err
}

// addWork adds the other figures of an iteration's event.
func (p *Spent) addWork(ev run.Event) error {
	switch ev.Type {
	case Worked, Cut:
		return run.Read(ev, func(w Work) {
			p.Seconds += w.Seconds
			p.Calls += w.Calls
		})
	case Kept:
		return run.Read(ev, func(k Keep) {
			if !k.Again { // or people did it
				p.Changes = k.Changes
			}
		})
	}
	return nil
}

// stateOf returns the state of the worker of an event, or that of the loop.
func (s *State) stateOf(ev run.Event) *State {
	if n, err := workerOf(ev); err == nil && n > 0 {
		return s.worker(n)
	}
	return s
}
