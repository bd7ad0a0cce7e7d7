package flow

import (
	"context"

	"github.com/bothy-dev/bothy/internal/run"
)

// This file has a person hear of what a step asks while others are at work: they may be
// for hours. When nothing is, the flow ends, and whoever carries it on tells that.

// Asking is what a step asks of a person.
type Asking struct {
	Step   string // node
	Reason string // ReasonApproval or ReasonQuestion
	Detail string // the node, and the message
}

// hearing is what became of a call.
type hearing struct {
	Call
	err error // it was cut short
}

// goesOn tells whether something is at work, or will be.
func (d *Decision) goesOn() bool { return d.Work != nil || d.Join || !d.Wait.IsZero() }

// call begins to tell of a question that nobody has heard of, and leaves it to that. Only
// a signal cuts it short.
func (c *Carrier) call(ctx context.Context) {
	st := c.state.unheard()
	if c.Call == nil || c.calling || st == nil {
		return
	}
	c.calling = true
	q, call := c.state.ask(st), Call{Step: st.ID, Asked: st.done}
	go func() { // until it was taken by join or ground
		c.Call(ctx, q)
		c.heard <- hearing{call, ctx.Err()}
	}()
}

// hear keeps that somebody has heard. One call that was cut short is made again by whoever
// goes on, and so is one of which that could not be kept.
func (c *Carrier) hear(h hearing) error {
	c.calling = false
	if h.err != nil {
		return nil
	}
	return c.keep(Called, h.Call)
}

// Heard keeps that a person knows of all that is asked where the flow stands now.
func (c *Carrier) Heard() error {
	for st := c.state.unheard(); st != nil; st = c.state.unheard() {
		if err := c.append(Called, run.ActorHost, Call{Step: st.ID, Asked: st.done}); err != nil {
			return err
		}
	}
	return nil
}

// unheard is the first step that asks what nobody was told; nil if there is none.
func (s *State) unheard() *StepState {
	for _, st := range s.Questions() {
		if st.called != st.done {
			return st
		}
	}
	return nil
}

// called takes that somebody was told of a question. It may be over by now, or another one.
func (s *State) called(c Call) {
	if st := s.byID[c.Step]; st != nil {
		st.called = c.Asked
	}
}
