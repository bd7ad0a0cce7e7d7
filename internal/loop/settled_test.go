package loop

import "testing"

// TestSettledBeneath checks that a worker's verdict covers all files: changes beneath the restored files
// are judged with its work.
func TestSettledBeneath(t *testing.T) {
	s, w := &State{Beneath: []string{"big.bin"}}, &State{Verdict: &Verdict{}}
	workerFold{s, w}.settle(Settle{Checkpoint: 3})
	if s.Verdict == nil || len(s.Beneath) > 0 {
		t.Errorf("it stands at %+v, and %q is said to be judged by nobody", s.Verdict, s.Beneath)
	}
}
