package loop

import "strings"

// insideMark stands before what was said inside a sandbox for the next iteration. Whoever is in
// there may be the agent, so it is no word of a person's: it is told, and keeps nothing from being
// done.
const insideMark = "Said inside the sandbox, by nobody known: "

// Inside is a hint that was given inside a sandbox.
func Inside(text string) string { return insideMark + text }

// FromInside counts those among hints.
func FromInside(hints []string) (n int) {
	for _, h := range hints {
		if strings.HasPrefix(h, insideMark) {
			n++
		}
	}
	return n
}

// Urged tells whether people have said something that no iteration was told yet.
func (s *State) Urged() bool { return FromInside(s.Hints) < len(s.Hints) }
