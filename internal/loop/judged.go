package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// guarded records that protected files are unchanged again.
func (s *State) guarded(g Guard) {
	if s.tampered = false; g.Checkpoint > 0 {
		s.checked, s.unjudged = g.Checkpoint, true
	}
}

// tampered reports whether a protected file has changed.
func (v *Verdict) tampered() bool {
	return slices.ContainsFunc(v.Red(), func(g Gate) bool { return g.Protects != "" })
}

// LastVerdict returns the last verdict of the gates, or nil if there is none for the current files.
func (s *State) LastVerdict() *Verdict {
	if s.Verdict != nil || len(s.Beneath) > 0 {
		return s.Verdict
	}
	return s.Baseline
}

// confirmed records that the files are still those of the checkpoint, and of its verdict if it has one.
func (s *State) confirmed() {
	s.stale = false
	if s.step == Judged {
		s.unjudged = false
	}
}

func (s *State) addVerdict(v Verdict) {
	s.Verdict, s.Beneath, s.step, s.unjudged, s.reviewed = &v, nil, Judged, false, 0
	s.tampered = v.tampered()
	s.wasSame, s.wasRed = s.SameRed, s.red
	s.SameRed, s.red = countSame(s.SameRed, s.red, fingerprint(v.Gates))
}

// countSame counts how often in a row a value was the same; the empty value resets the count.
func countSame(n int, before, now string) (int, string) {
	switch now {
	case "":
		return 0, ""
	case before:
		return n + 1, now
	}
	return 1, now
}

// fingerprint returns the same text for the same red gates with the same output. Gate names alone would
// end honest work at one large gate, such as a whole test suite.
func fingerprint(gates []Gate) string {
	var red []string
	for _, g := range gates {
		if !g.Green {
			red = append(red, g.Name, g.Why, g.Output)
		}
	}
	if red == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(red, "\x00")))
	return hex.EncodeToString(sum[:])
}

// gateTime returns the total time of the gates.
func (v *Verdict) gateTime() time.Duration {
	var seconds float64
	if v != nil {
		for _, g := range v.Gates {
			seconds += g.Seconds
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

// Red returns the red gates.
func (v *Verdict) Red() (list []Gate) {
	if v == nil {
		return nil
	}
	for _, g := range v.Gates {
		if !g.Green {
			list = append(list, g)
		}
	}
	return list
}
