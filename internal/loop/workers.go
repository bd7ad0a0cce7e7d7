package loop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// This file is the fold of a loop with several workers. Each worker has the state of a loop that works
// at one task after the other. Tasks, hints, usage and the count of iterations are common. A worker's
// result is in the loop's sandbox only after it is settled.

// noHolder marks a result that only a checkpoint holds: no agent's place has the files.
const noHolder = "-"

// workerOf returns the worker of an event; 0 without one.
func workerOf(ev run.Event) (int, error) {
	if len(ev.Data) == 0 {
		return 0, nil
	}
	var by By
	if err := json.Unmarshal(ev.Data, &by); err != nil {
		return 0, fmt.Errorf("read event %d, %s: %w", ev.Seq, ev.Type, err)
	}
	if by.Worker < 0 || by.Worker > loopplan.MaxWorkers {
		return 0, spec.Errorf(nil, "read event %d, %s: worker %d is impossible", ev.Seq, ev.Type, by.Worker)
	}
	return by.Worker, nil
}

// Of returns the worker of an event, and its state; nil without one.
func (s *State) Of(ev run.Event) (int, *State) {
	n, err := workerOf(ev)
	if n == 0 || err != nil || n > len(s.Workers) {
		return 0, nil
	}
	return n, s.Workers[n-1]
}

// allStates returns the state of the loop, and those of its workers.
func (s *State) allStates() []*State { return append([]*State{s}, s.Workers...) }

// worker returns the state of a worker, which may be new.
func (s *State) worker(n int) *State {
	for len(s.Workers) < n {
		s.Workers = append(s.Workers, &State{})
	}
	return s.Workers[n-1]
}

// workerFold applies the events of a worker to its own state, and to the common state of the loop.
type workerFold struct{ s, w *State }

// addEvent applies the next event of the worker.
func (f workerFold) addEvent(ev run.Event) error {
	s, w := f.s, f.w
	w.Last = ev.Time
	switch ev.Type {
	case Iteration, Worked:
		if w.Task == nil {
			return nil
		}
	case Kept, Confirmed, Judged, Joined:
		if w.Work == nil {
			return nil
		}
	case Reviewing, Reviewed, ReviewDelayed:
		if w.Work == nil || w.Verdict == nil {
			return nil
		}
	case Rejudged, Settled:
		if w.Join == nil {
			return nil
		}
	}
	switch ev.Type {
	case Took:
		return run.Read(ev, f.takeTask)
	case Iteration:
		return run.Read(ev, f.beginIteration)
	case Worked:
		return run.Read(ev, func(k Work) {
			w.addWork(k, ev.Time)
			s.addUsage(k)
			s.unmetered.Take(&w.unmetered)
			if k.Verdict == spec.VerdictLimit {
				f.untell()
			}
			w.given = nil
		})
	case Cut:
		return run.Read(ev, func(k Work) {
			s.addCut(k)
			w.countCrash(k)
			f.untell()
			w.open = false
		})
	case Kept:
		return run.Read(ev, w.addCheckpoint)
	case Confirmed:
		w.confirmed()
	case Judged:
		return run.Read(ev, func(v Verdict) {
			w.addVerdict(v)
			w.own = w.Verdict
		})
	case Guarded:
		return run.Read(ev, w.guarded)
	case Joined:
		return run.Read(ev, func(j Join) { w.Join, w.step = &j, Joined })
	case Rejudged:
		return run.Read(ev, func(v Verdict) {
			w.Verdict, w.step, w.reviewed = &v, Rejudged, 0
			w.wasSame, w.wasRed = w.SameRed, w.red
		})
	case Reviewing:
		return run.Read(ev, w.asking)
	case Reviewed:
		return run.Read(ev, f.addReview)
	case ReviewDelayed:
		return run.Read(ev, func(u Unheard) {
			w.delayReview(u, ev.Time)
			s.useReview(u.Usage)
		})
	case ReviewCut:
		return run.Read(ev, func(u Unheard) { s.useReview(u.Usage) })
	case Settled:
		return run.Read(ev, f.settle)
	case Handed:
		return run.Read(ev, func(d Hand) { w.holder = d.Agent })
	case Replaced:
		return run.Read(ev, func(p Place) {
			s.replaced(p)
			if w.Task != nil && w.holder == p.Agent {
				w.holder = noHolder
			}
		})
	case Closed:
		return run.Read(ev, func(done Finished) {
			s.Closed = append(s.Closed, done)
			s.allowOthers(done.Task)
			f.dismiss()
		})
	case PutBack, Lost:
		return run.Read(ev, func(l Left) {
			f.leaveTask(l)
			f.dismiss()
		})
	}
	return nil
}

// takeTask starts a task, or continues it. A worker that starts knows the gates' verdict on its first
// files, and earlier tries by others count.
func (f workerFold) takeTask(t Taken) {
	s, w := f.s, f.w
	if t.Base == 0 && w.Task != nil && w.Task.ID == t.ID {
		w.held, w.stale = true, w.stale && !t.Closed
		return
	}
	w.endTask()
	w.tampered = false // it starts with the common files
	w.Verdict, w.Baseline, w.Work, w.Keep, w.Join = nil, s.LastVerdict(), nil, nil, nil
	w.Task, w.held, w.from, w.checked, w.tries = &t, true, t.Base, t.Base, s.spent[t.ID]
	w.tried = w.tries
	w.holder, w.before = "", s.LastVerdict()
}

// beginIteration begins an iteration. A worker that receives a hint keeps it until it has worked.
func (f workerFold) beginIteration(b Begun) {
	s, w := f.s, f.w
	if b.Iteration > s.Iteration {
		s.Iteration = b.Iteration
	}
	if w.Task != nil && b.Iteration != w.Iteration {
		if s.spent == nil {
			s.spent = map[string]int{}
		}
		s.spent[w.Task.ID]++
	}
	if b.Iteration == w.Iteration {
		s.Repeats++
	}
	if w.unknown {
		s.addMetered(spec.Meter(nil, nil))
	}
	w.turns = w.turnOf(b.Iteration)
	f.untell()
	told := max(0, min(b.Hints, len(s.Hints)))
	w.given, s.Hints = slices.Clone(s.Hints[:told]), s.Hints[told:]
	w.beginIteration(Begun{Iteration: b.Iteration, Agent: b.Agent, Model: b.Model})
}

// leaveTask ends a worker's work at an unfinished task. If others were faster, that does not count as a
// try. After the last time that this may happen, a worker does the task alone.
func (f workerFold) leaveTask(l Left) {
	s, w := f.s, f.w
	if !l.Again {
		s.Left = append(s.Left, l)
		s.allowOthers(l.Task)
		return
	}
	s.Retries++
	if !l.Outrun {
		return
	}
	if s.outrun == nil {
		s.outrun = map[string]int{}
	}
	s.outrun[l.Task]++
	if s.spent != nil {
		s.spent[l.Task] = w.tried
	}
	if s.outrun[l.Task] >= maxOutrun && !slices.Contains(s.alone, l.Task) {
		s.alone = append(s.alone, l.Task)
	}
}

// maxOutrun is how often others may be faster before a task is done alone.
const maxOutrun = 2

// allowOthers lets a task be done beside others again.
func (s *State) allowOthers(id string) {
	s.alone = slices.DeleteFunc(s.alone, func(o string) bool { return o == id })
}

// turnOf returns a worker's own number of an iteration, from 1.
func (s *State) turnOf(iteration int) int {
	if iteration == s.Iteration { // it is repeated
		return s.turns
	}
	return s.turns + 1
}

// addReview adds a reviewer's answer to the verdict on a worker's own result, or on the
// merge.
func (f workerFold) addReview(r Review) {
	s, w := f.s, f.w
	w.addReview(r)
	s.useReview(r.Usage)
	s.unmetered.Take(&w.unmetered)
	if w.step == Judged {
		w.own = w.Verdict
	}
}

// settle records that a worker's result is in the loop's sandbox.
func (f workerFold) settle(e Settle) {
	s, w := f.s, f.w
	s.checked, w.step = e.Checkpoint, Settled
	if w.Verdict != nil {
		v := *w.Verdict.lasting()
		v.Checkpoint, v.Worker = e.Checkpoint, 0
		s.Verdict, s.Beneath, s.unjudged, s.stale = &v, nil, false, false
	}
}

// replaced gives a seat another place. It drops the other places that were made for the seat: they were
// removed before.
func (s *State) replaced(p Place) {
	s.Places = append(slices.DeleteFunc(slices.Clone(s.Places), func(o Place) bool { return o.Seat == p.Seat }), p)
	slices.SortStableFunc(s.Places, func(a, b Place) int { return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Agent, b.Agent)) })
}

// untell returns a worker's unused hints for the next worker.
func (f workerFold) untell() {
	s, w := f.s, f.w
	s.Hints, w.given = slices.Concat(w.given, s.Hints), nil
}

// dismiss ends a worker's work at its task.
func (f workerFold) dismiss() {
	w := f.w
	f.untell()
	w.endTask()
	w.Work, w.Keep, w.Verdict, w.Join, w.Until, w.Reviewing = nil, nil, nil, nil, time.Time{}, ""
}

// endCarrier is called when no process carries the loop on any more. Then it is unknown whether workers still
// have their tasks. A merge may be outdated when the loop is resumed. Hints of an interrupted iteration
// count as undelivered.
func (s *State) endCarrier() {
	s.shown = 0
	for _, w := range slices.Backward(s.Workers) { // put each worker's hints before the current ones
		workerFold{s, w}.untell()
		w.held, w.Reviewing = false, ""
		if w.step == Joined || w.step == Rejudged {
			w.step, w.Join, w.Verdict, w.reviewed = Judged, nil, w.own, w.own.reviews()
		}
	}
}

// resetTries gives workers all their tries again, after a user resumes a stalled loop.
func (s *State) resetTries() {
	s.spent = nil
	for _, w := range s.Workers {
		w.Unchanged, w.SameRed, w.SameError, w.SameLimit, w.tries, w.Until = 0, 0, 0, 0, 0, time.Time{}
	}
}

// tasksInHand returns the tasks that workers have in hand.
func (s *State) tasksInHand() (list []string) {
	for _, w := range s.Workers {
		if w.Task != nil {
			list = append(list, w.Task.ID)
		}
	}
	return list
}

// At describes a worker's activity, in a word or two.
func (s *State) At() string {
	switch {
	case s.Task == nil:
		return "idle"
	case s.Reviewing != "":
		return "is reviewed"
	case s.step == Iteration:
		return "works"
	case s.delayed, s.step == Worked && s.Work.Verdict == spec.VerdictLimit:
		return "waits"
	case s.step == Worked:
		return "keeps"
	case s.step == Kept, s.step == Judged && s.stale:
		return "is judged"
	case s.step == Judged && s.Work.Done && len(s.Verdict.Red()) == 0:
		return "is to be joined"
	case s.step == Joined:
		return "is judged with the others"
	case s.step == Rejudged:
		return "is settled"
	case s.step == Settled:
		return "is closed"
	}
	return "begins"
}
