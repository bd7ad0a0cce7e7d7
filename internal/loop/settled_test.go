package loop

import "testing"

// TestSettledBeneath has what a worker did be judged together: what was changed beneath what the
// files were put back to is judged with it.
func TestSettledBeneath(t *testing.T) {
	s, w := &State{Beneath: []string{"big.bin"}}, &State{Verdict: &Verdict{}}
	s.settled(w, Settle{Checkpoint: 3})
	if s.Verdict == nil || len(s.Beneath) > 0 {
		t.Errorf("it stands at %+v, and %q is said to be judged by nobody", s.Verdict, s.Beneath)
	}
}
