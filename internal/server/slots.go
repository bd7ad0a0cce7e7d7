package server

import (
	"fmt"
	"net/http"
)

// kind is a kind of request of which only so many may run at once.
type kind string

// The kinds, and how many of each may run.
const (
	events    kind = "event streams"
	terminals kind = "terminals"
	commands  kind = "commands"
	transfers kind = "transfers"
	plain     kind = "requests"
)

func newSlots() map[kind]chan struct{} {
	return map[kind]chan struct{}{
		events: make(chan struct{}, 2048), terminals: make(chan struct{}, 256), commands: make(chan struct{}, 128),
		transfers: make(chan struct{}, 64), plain: make(chan struct{}, 256),
	}
}

// busy says that too many requests of a kind run.
type busy struct{ of kind }

func (b *busy) Error() string { return fmt.Sprintf("too many %s run at once", string(b.of)) }

func (b *busy) status() int {
	if b.of == plain {
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// takeSlot takes a place for a request of a kind, or returns an error at once.
func (s *Server) takeSlot(of kind) (release func(), err error) {
	slot := s.slots[of]
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	default:
		return nil, &busy{of}
	}
}
