package flow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// person returns a Person that finds the run held by another process.
func (b *bench) person(name string) *Person {
	b.t.Helper()
	events, err := b.run.Events()
	must(b.t, err)
	return &Person{Plan: b.plan, Run: b.run, Events: events, Name: name}
}

// say records a person's decision while another process has the run.
func (b *bench) say(name, step string, approved bool) *Person {
	b.t.Helper()
	p := b.person(name)
	_, err := p.Decide(step, approved, "")
	must(b.t, err)
	return p
}

// untilHeard waits until the carrier has read the answer.
func untilHeard(t *testing.T, p *Person) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		heard, err := p.Heard()
		must(t, err)
		if heard {
			return
		}
	}
	t.Error("nobody hears it")
}

// TestAnswerWhileTold checks that a person can answer at once when told of a question, and wait until
// the carrier reads the answer. The flow continues, although no step is running by then.
func TestAnswerWhileTold(t *testing.T) {
	b := beside(t, 2, "name: x\nsteps: [{id: good, approval: {message: Good?}}, {id: slow, command: do it}, {id: more, needs: [good], command: do it}]\n", nil, nil)
	done := make(chan struct{})
	b.tell = func(ev run.Event, s *State) {
		if st := s.Told(ev); ev.Type == Worked && st.ID == "slow" {
			close(done)
		}
	}
	b.call = func(context.Context, Asking) {
		<-done
		untilHeard(t, b.say("bob", "good", true))
	}
	b.do = fine
	b.ended(b.carry(), run.Completed, "done")
}

// TestAnswerAtRest checks that a person can answer a waiting flow while its process still has it: the
// flow continues. An answer to another question is left for the next carrier.
func TestAnswerAtRest(t *testing.T) {
	b := begin(t, decided, fine)
	var p *Person
	rests := 0
	b.rest = func(answered func() bool) {
		if rests++; rests > 1 {
			return
		}
		must(t, b.run.Leave(run.Message{Kind: run.Reply, Actor: "ann", Data: []byte(`{"step": "good", "hash": "other", "approved": true}`)}))
		if answered() {
			t.Error("it was answered by what is about something else")
		}
		p = b.say("bob", "good", true)
		if !answered() {
			t.Error("it was not answered")
		}
	}
	b.want(b.carry(), run.Completed, "done", "work.1 other.1 publish.1 clean.1")
	if heard, err := p.Heard(); !heard || err != nil || rests != 2 {
		t.Errorf("heard %t, %v, after %d rests", heard, err, rests)
	}

	b = begin(t, decided, fine)
	ctx, cancel := context.WithCancel(t.Context())
	b.rest = func(func() bool) { // a signal, just then
		b.say("bob", "good", true)
		cancel()
	}
	s, c := b.carryIn(ctx)
	c.Host.Close()
	b.ended(s, run.Waiting, "approval")
	b.rest = nil
	b.want(b.carry(), run.Completed, "done", "publish.1 clean.1")
}

// TestSaid checks that the status shows answers that no carrier has recorded yet.
func TestSaid(t *testing.T) {
	b := begin(t, decided, fine)
	b.carry()
	b.say("bob", "good", false)
	b.say("ann", "good", true) // too late
	events, err := b.run.Events()
	must(t, err)
	s, err := Fold(b.plan, events)
	must(t, err)
	list, err := b.run.Mail()
	must(t, err)
	s.Said(list, len(events))
	if st := s.Step("good"); st.Detail != "rejected by bob" || len(s.Questions()) != 0 || s.Reason != "answered" {
		t.Errorf("good is %+v, the flow %s", st, s.Reason)
	}
	b.want(b.carry(), run.Failed, "rejected", "sorry.1 clean.1")
}

// TestHeard checks that Heard reports whether the answer decided anything.
func TestHeard(t *testing.T) {
	b := begin(t, decided, fine)
	b.carry()
	first, second, same := b.say("bob", "good", false), b.say("ann", "good", true), b.say("bob", "good", false)
	if heard, err := first.Heard(); heard || err != nil {
		t.Errorf("before: %t, %v", heard, err)
	}
	back := b.say("cy", "good", true)
	must(t, back.TakeBack())
	must(t, back.TakeBack())
	b.carry()
	for _, p := range []*Person{first, same} {
		if heard, err := p.Heard(); !heard || err != nil {
			t.Errorf("who decided: %t, %v", heard, err)
		}
	}
	if heard, err := second.Heard(); !heard || !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "good of the run flow-2026-11-22-0001 was rejected by bob first") {
		t.Errorf("who did not: %t, %v", heard, err)
	}

	b = begin(t, decided, fine)
	b.carry()
	p := b.say("bob", "good", true)
	b.write("outputs/a.txt", "other")
	b.want(b.carry(), run.Waiting, "approval", "work.2")
	if heard, err := p.Heard(); !heard || !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "has changed since") {
		t.Errorf("of something else: %t, %v", heard, err)
	}
}
