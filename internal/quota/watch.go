package quota

import (
	"context"
	"time"
)

// Times a watch goes by.
const (
	poll     = time.Second     // between two questions what is free
	minPause = time.Second     // between two counts, at least
	pauses   = 4               // and so many times as long as the last one took
	often    = time.Minute     // between two counts if little is left
	seldom   = 5 * time.Minute // and else
	little   = 8               // what is left is little below this part of what is allowed
)

// Look is what a count has found.
type Look struct {
	Use   Use
	Whole bool // all of it was counted; else there is more
	Blind int  // so many counts in a row were not whole
	Ended time.Time
	Took  time.Duration
}

// Watch has trees counted when they may take more than they may: when what is free on
// their file system has fallen by what was left, whoever took it, or when some time has
// passed. What is freed at the same moment by somebody else, to the byte, hides from the
// first of these until the second.
type Watch struct {
	Allowed Use
	// Free tells what the file system has free.
	Free func() (Use, error)
	// Count counts. It ends with its context.
	Count func(context.Context) (use Use, whole bool)
	// Worked tells whether anything can have been written since it said so last. It is
	// asked before a count for which nothing else speaks than that time has passed.
	Worked func() bool
	// Told is told of each count, and says whether to go on.
	Told func(Look) bool
}

// Run watches until the context ends, or nobody wants to go on. First is what was known
// before; without a whole count one is made at once.
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
				<-done // who starts it waits for it
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
			s.fell(free, now, err)
			if err == nil {
				free = now
			}
		}
		if !counting && s.due(time.Now(), w.Worked) {
			counting = true
			s.begin()
			go func() { done <- w.count(ctx) }()
		}
	}
}

func (w *Watch) count(ctx context.Context) Look {
	began := time.Now()
	use, whole := w.Count(ctx)
	return Look{Use: use, Whole: whole, Ended: time.Now(), Took: time.Since(began)}
}

// state is what is known between two counts.
type state struct {
	allowed Use
	last    Look // of the last count
	fallen  Use  // by so much what is free has fallen since that began, what rose not set off
	doubt   bool // that could not be told
}

// fell notes what is free now, and was before.
func (s *state) fell(before, now Use, err error) {
	if err != nil {
		s.doubt = true
		return
	}
	less := before.Minus(now)
	s.fallen = s.fallen.Plus(Use{max(less.Bytes, 0), max(less.Files, 0)})
}

// begin is when a count begins: what falls from here on it may not see.
func (s *state) begin() { s.fallen, s.doubt = Use{}, false }

func (s *state) counted(look Look) {
	if !look.Whole {
		look.Blind = s.last.Blind + 1
	}
	s.last = look
}

// due tells whether to count now.
func (s *state) due(now time.Time, worked func() bool) bool {
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
