package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

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

// Heard leaves word for who goes on with the flow that a person knows of all that is asked
// where it stands now. It is nobody's by then: who goes on may have begun, and does not wait.
func (c *Carrier) Heard() error {
	for _, st := range c.state.Questions() {
		if st.called == st.done {
			continue
		}
		data, err := json.Marshal(Call{Step: st.ID, Asked: st.done})
		if err == nil {
			err = c.Run.Leave(run.Message{Kind: run.Told, Actor: run.ActorHost, Data: data})
		}
		if errors.Is(err, fs.ErrNotExist) { // who heard of it has removed the run
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// told keeps what word was left of, unless it is asked anew by now.
func (c *Carrier) told(m run.Message) error {
	var call Call
	if err := json.Unmarshal(m.Data, &call); err != nil {
		return fmt.Errorf("read what a person was told: %w", err)
	}
	st := c.state.byID[call.Step]
	if st == nil || st.done != call.Asked || st.called == call.Asked {
		return nil
	}
	return c.append(Called, m.Actor, call)
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
