package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bothy-dev/bothy/internal/run"
)

// This file tells a person about a step's question while other steps are running: they may take hours.
// When no step is running, the flow ends, and the process that carried it on tells the person.

// Asking is a step's question to a person.
type Asking struct {
	Step   string // node
	Reason string // ReasonApproval or ReasonQuestion
	Detail string // the node, and the message
}

// hearing is the result of a call.
type hearing struct {
	Call
	err error // the call was interrupted
}

// goesOn reports whether a step is running, or will be.
func (d *Decision) goesOn() bool { return d.Work != nil || d.Join || !d.Wait.IsZero() }

// callPerson starts to tell a person of the first untold question, and does not wait. Only a signal
// interrupts it.
func (c *Carrier) callPerson(ctx context.Context) {
	st := c.state.unheard()
	if c.Call == nil || c.calling || st == nil {
		return
	}
	c.calling = true
	q, call := c.state.askingOf(st), Call{Step: st.ID, Asked: st.done}
	go func() { // until awaitTry or stopTries takes it
		c.Call(ctx, q)
		c.heard <- hearing{call, ctx.Err()}
	}()
}

// hearCall records that a person was told. If a call was interrupted, or could not be recorded, the next
// carrier repeats it.
func (c *Carrier) hearCall(h hearing) error {
	c.calling = false
	if h.err != nil {
		return nil
	}
	return c.keepEvent(Called, h.Call)
}

// Heard leaves a message for the next carrier: a person knows all questions that are open now. This
// process no longer owns the run by then: the next carrier may have begun, and does not wait.
func (c *Carrier) Heard() error {
	for _, st := range c.state.Questions() {
		if st.called == st.done {
			continue
		}
		data, err := json.Marshal(Call{Step: st.ID, Asked: st.done})
		if err == nil {
			err = c.Run.Leave(run.Message{Kind: run.Told, Actor: run.ActorHost, Data: data})
		}
		if errors.Is(err, fs.ErrNotExist) { // the person who was told has removed the run
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepTold records such a message, unless the question was asked again since.
func (c *Carrier) keepTold(m run.Message) error {
	var call Call
	if err := json.Unmarshal(m.Data, &call); err != nil {
		return fmt.Errorf("read what a person was told: %w", err)
	}
	st := c.state.byID[call.Step]
	if st == nil || st.done != call.Asked || st.called == call.Asked {
		return nil
	}
	return c.appendEvent(Called, m.Actor, call)
}

// unheard returns the first question that no person was told of, or nil.
func (s *State) unheard() *StepState {
	for _, st := range s.Questions() {
		if st.called != st.done {
			return st
		}
	}
	return nil
}

// called records that a person was told of a question. The question may be over by now, or replaced.
func (s *State) called(c Call) {
	if st := s.byID[c.Step]; st != nil {
		st.called = c.Asked
	}
}
