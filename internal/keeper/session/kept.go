package session

import (
	"slices"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Kept is the state of a program under init that a memory image keeps.
type Kept struct {
	Info   spec.Session `json:"info"`
	Stream uint32       `json:"stream"`
	Credit int          `json:"credit"`         // bytes that may be sent to it
	Held   int          `json:"held,omitempty"` // bytes that it sent and that have not been credited again
	Logged bool         `json:"logged,omitempty"`
	// Limit is the program's time limit, Left the rest of it, and Mark the value that the program
	// hands down to the processes that it starts.
	Limit spec.Duration `json:"limit,omitempty"`
	Left  spec.Duration `json:"left,omitempty"`
	Mark  string        `json:"mark,omitempty"`
}

// Kept lists the programs under init.
func (t *Table) Kept() (last int, list []Kept) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.live {
		if s.stream == nil {
			continue
		}
		credit, held, runs := s.stream.Balance()
		if !runs {
			continue
		}
		kept := Kept{Info: s.info, Stream: s.stream.ID, Credit: credit, Held: held, Logged: s.log != nil}
		s.mu.Lock()
		if s.limit > 0 {
			kept.Limit, kept.Mark = spec.Duration(s.limit), s.mark
			kept.Left = spec.Duration(max(time.Until(s.until), time.Millisecond))
		}
		s.mu.Unlock()
		list = append(list, kept)
	}
	slices.SortFunc(list, func(a, b Kept) int { return int(a.Stream) - int(b.Stream) })
	return t.next, list
}

// SetLast makes new sessions be numbered after those of another keeper.
func (t *Table) SetLast(last int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = last
}
