package loop

import (
	"slices"

	"github.com/bothy-dev/bothy/internal/run"
)

// Toll is what work at one task took, reviewers included.
type Toll struct {
	Task       string  `json:"task"`
	Iterations int     `json:"iterations"` // one that was begun again counts once
	Tokens     int64   `json:"tokens"`
	USD        float64 `json:"usd"`
}

// Tolls gives what each task took by the events of a loop, in the order in which they were
// taken first. What a loop takes when no task is in hand is nobody's.
func Tolls(events []run.Event) (list []Toll, err error) {
	s, err := Fold(nil)
	for _, ev := range events {
		if err != nil {
			return nil, err
		}
		before := s.actor(ev)
		iteration, task, tokens, usd := before.Iteration, before.Task, s.Tokens, s.USD
		if err = s.Add(ev); err != nil {
			return nil, err
		}
		if ev.Type == Took {
			task = s.actor(ev).Task
		}
		if task == nil {
			continue
		}
		i := slices.IndexFunc(list, func(t Toll) bool { return t.Task == task.ID })
		if i < 0 {
			i = len(list)
			list = append(list, Toll{Task: task.ID})
		}
		t := &list[i]
		if ev.Type == Iteration && s.actor(ev).Iteration != iteration {
			t.Iterations++
		}
		t.Tokens += s.Tokens - tokens
		t.USD += s.USD - usd
	}
	return list, err
}

// actor is who an event is of: a worker, or the loop.
func (s *State) actor(ev run.Event) *State {
	if n, err := workerOf(ev); err == nil && n > 0 {
		return s.worker(n)
	}
	return s
}
