package quota

import (
	"context"
	"time"
)

// Intervals of a watch.
const (
	poll     = time.Second     // between two checks of the free space
	minPause = time.Second     // between two counts, at least
	pauses   = 4               // and this many times as long as the last one took
	often    = time.Minute     // between two counts if little is left
	seldom   = 5 * time.Minute // and otherwise
	little   = 8               // the rest is little if it is below this part of the limit
)

// Look is the result of a count.
type Look struct {
	Use   Use
	Whole bool // all of it was counted; else there is more
	Blind int  // number of counts in a row that were not whole
	Ended time.Time
	Took  time.Duration
}

// Watch counts trees when they may exceed their limit. It counts when the free space has
// fallen by the rest of the limit, also by the writes of other processes, or after some time. If another process
// frees exactly as much at the same moment, only the second condition notices.
type Watch struct {
	Allowed Use
	// Free returns the free space of the file system.
	Free func() (Use, error)
	// Count counts. It ends with its context.
	Count func(context.Context) (use Use, whole bool)
	// Worked reports whether anything can have been written since the last call. It is called before a
	// count whose only reason is the passed time.
	Worked func() bool
	// Told receives each count, and reports whether to continue.
	Told func(Look) bool
}

// Run watches until the context ends, or Told returns false. first is the last known count;
// if it is not whole, a count begins at once.
func (w *Watch) Run(ctx context.Context, first Look) {
	s := state{allowed: w.Allowed, last: first}
	free, err := w.Free()
	s.doubt = err != nil
	done := make(chan Look)
	counting := false
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if counting {
				<-done // the counting goroutine has to end first
			}
			return
		case look := <-done:
			counting = false
			s.counted(look)
			if !w.Told(s.last) {
				return
			}
		case <-tick.C:
			now, err := w.Free()
			s.noteFree(free, now, err)
			if err == nil {
				free = now
			}
		}
		if !counting && s.isCountDue(time.Now(), w.Worked) {
			counting = true
			s.beginCount()
			go func() { done <- w.countUse(ctx) }()
		}
	}
}

func (w *Watch) countUse(ctx context.Context) Look {
	began := time.Now()
	use, whole := w.Count(ctx)
	return Look{Use: use, Whole: whole, Ended: time.Now(), Took: time.Since(began)}
}

// state is the state between two counts.
type state struct {
	allowed Use
	last    Look // of the last count
	fallen  Use  // decrease of the free space since the last count began; increases are not deducted
	doubt   bool // the decrease is unknown
}

// noteFree records the change of the free space.
func (s *state) noteFree(before, now Use, err error) {
	if err != nil {
		s.doubt = true
		return
	}
	less := before.Minus(now)
	s.fallen = s.fallen.Plus(Use{max(less.Bytes, 0), max(less.Files, 0)})
}

// beginCount is called when a count begins, which may miss any later decrease.
func (s *state) beginCount() { s.fallen, s.doubt = Use{}, false }

func (s *state) counted(look Look) {
	if !look.Whole {
		look.Blind = s.last.Blind + 1
	}
	s.last = look
}

// isCountDue reports whether to count now.
func (s *state) isCountDue(now time.Time, worked func() bool) bool {
	age := now.Sub(s.last.Ended)
	if !s.last.Ended.IsZero() && age >= 0 && age < max(minPause, pauses*s.last.Took) {
		return false
	}
	if !s.last.Whole || s.doubt {
		return true
	}
	left := s.allowed.Minus(s.last.Use)
	if s.fallen.Bytes >= left.Bytes || s.fallen.Files >= left.Files {
		return true
	}
	period := seldom
	if left.Bytes < s.allowed.Bytes/little || left.Files < s.allowed.Files/little {
		period = often
	}
	return (age >= period || age < 0) && worked()
}
