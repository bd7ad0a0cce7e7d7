package loop

import "strings"

// insideMark begins a hint that came from inside a sandbox. The agent itself may have sent it, so it
// does not count as a person's: the next iteration receives it, but it does not keep the loop from being
// done.
const insideMark = "Said inside the sandbox, by nobody known: "

// Inside returns a hint that was given inside a sandbox.
func Inside(text string) string { return insideMark + text }

// FromInside counts the hints from inside.
func FromInside(hints []string) (n int) {
	for _, h := range hints {
		if strings.HasPrefix(h, insideMark) {
			n++
		}
	}
	return n
}

// Urged reports whether people have sent hints that no iteration has received yet.
func (s *State) Urged() bool { return FromInside(s.Hints) < len(s.Hints) }
