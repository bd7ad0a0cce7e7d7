package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

func (s *State) guarded(g Guard) {
	if s.tampered = false; g.Checkpoint > 0 {
		s.checked, s.unjudged = g.Checkpoint, true
	}
}

func (v *Verdict) tampered() bool {
	return slices.ContainsFunc(v.Red(), func(g Gate) bool { return g.Protects != "" })
}

func (s *State) LastVerdict() *Verdict {
	if s.Verdict != nil || len(s.Beneath) > 0 {
		return s.Verdict
	}
	return s.Baseline
}

func (s *State) confirmed() {
	s.stale = false
	if s.step == Judged {
		s.unjudged = false
	}
}

func (s *State) judged(v Verdict) {
	s.Verdict, s.Beneath, s.step, s.unjudged, s.reviewed = &v, nil, Judged, false, 0
	s.tampered = v.tampered()
	s.wasSame, s.wasRed = s.SameRed, s.red
	s.SameRed, s.red = again(s.SameRed, s.red, fingerprint(v.Gates))
}

func again(n int, before, now string) (int, string) {
	switch now {
	case "":
		return 0, ""
	case before:
		return n + 1, now
	}
	return 1, now
}

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

func (v *Verdict) took() time.Duration {
	var seconds float64
	if v != nil {
		for _, g := range v.Gates {
			seconds += g.Seconds
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

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
