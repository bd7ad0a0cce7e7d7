package loop

import "strings"

// insideMark begins a hint to the next iteration that came from inside a sandbox. The agent itself
// may have sent it, so it does not count as a person's: it is told, but does not keep the loop
// from being done.
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

// Urged reports whether people have sent hints that no iteration was told yet.
func (s *State) Urged() bool { return FromInside(s.Hints) < len(s.Hints) }
