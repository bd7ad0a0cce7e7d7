package runstate

import "github.com/bothy-dev/bothy/internal/loop"

// Workplaces returns the places of workers. They hold nothing that the checkpoints of the loop's
// sandbox lack. If the loop never became ready, it returns all places: no agent worked in them.
func Workplaces(s *loop.State) (list []loop.Place) {
	if !s.Ready {
		return s.Places
	}
	for _, at := range s.Places {
		if at.Worker > 0 {
			list = append(list, at)
		}
	}
	return list
}

// Worker is the state of a worker in JSON.
type Worker struct {
	Worker    int           `json:"worker"`
	Sandbox   string        `json:"sandbox,omitempty"`
	Step      string        `json:"step"` // its current activity
	Iteration int           `json:"iteration"`
	Agent     string        `json:"agent,omitempty"` // whose turn it is, if not the first agent's
	Model     string        `json:"model,omitempty"`
	Task      *loop.Taken   `json:"task,omitempty"`
	Work      *loop.Work    `json:"work,omitempty"`
	Keep      *loop.Keep    `json:"kept,omitempty"`
	Verdict   *loop.Verdict `json:"verdict,omitempty"`
	Reviewing string        `json:"reviewing,omitempty"`
	Question  string        `json:"question,omitempty"`
}

// WorkersOf returns the state of a loop's workers.
func WorkersOf(s *loop.State) (list []Worker) {
	for i, w := range s.Workers {
		v := Worker{Worker: i + 1, Step: w.At(), Iteration: w.Iteration, Agent: w.Agent, Model: w.Model, Task: w.Task, Work: w.Work, Keep: w.Keep, Verdict: w.Verdict, Reviewing: w.Reviewing, Question: w.Question}
		for _, at := range s.Places {
			if at.Seat == (loop.Seat{Worker: i + 1, Agent: w.Agent}) && !s.Final() { // otherwise it is removed
				v.Sandbox = at.Sandbox
			}
		}
		list = append(list, v)
	}
	return list
}
