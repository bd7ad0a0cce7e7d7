package flow

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
)

// calls are the questions that a person was told of, in order.
type calls struct {
	mu   sync.Mutex
	list []string
	more chan struct{} // receives one value for each call
}

func (c *calls) take(_ context.Context, q Asking) {
	c.mu.Lock()
	c.list = append(c.list, q.Step+" "+q.Reason+" "+q.Detail)
	c.mu.Unlock()
	c.more <- struct{}{}
}

// heard waits for a number of calls.
func (c *calls) heard(count int) Done {
	for range count {
		select {
		case <-c.more:
		case <-time.After(patience):
			return Done{Verdict: "failed", Error: "nobody is told"}
		}
	}
	return Done{Verdict: "ok"}
}

func called(t *testing.T, b *bench) *calls {
	t.Helper()
	c := &calls{more: make(chan struct{}, 16)}
	b.call = c.take
	return c
}

func (c *calls) want(t *testing.T, list ...string) {
	t.Helper()
	if !slices.Equal(c.list, list) {
		t.Errorf("a person was told %q, want %q", c.list, list)
	}
	c.list = nil
}

// asking is a flow that asks two questions while a step is running.
const asking = `
name: asking
steps:
  - {id: good, approval: {message: Good?}}
  - {id: slow, command: do it}
  - {id: tone, question: {message: Which?}, output: tone.txt}
  - {id: more, needs: [good], command: do it}
  - {id: end, needs: [tone], command: do it}
`

// TestCall checks that a person is told of each question once, while other steps are running.
func TestCall(t *testing.T) {
	b := beside(t, 2, asking, nil, nil)
	c := called(t, b)
	b.do = func(job Job) Done {
		if stepOf(job) == "slow" {
			return c.heard(2)
		}
		return fine(job)
	}
	b.ended(b.carry(), run.Waiting, "approval")
	c.want(t, "good approval good: Good?", "tone question tone: Which?")
	b.answer("good", true)
	b.want(b.carry(), run.Waiting, "question", "more.1")
	c.want(t) // it was told of tone
}

// TestCallAlone checks that a person is not told twice. With no step running the flow ends, and the
// process that carried it on tells the person.
func TestCallAlone(t *testing.T) {
	b := beside(t, 2, strings.ReplaceAll(asking, "{id: slow,", "{id: slow, needs: [good],"), nil, fine)
	c := called(t, b)
	s, carrier := b.carryIn(t.Context())
	b.ended(s, run.Waiting, "approval")
	c.want(t)
	carrier.Host.Close() // once told of the end, a person may resume the flow
	must(t, carrier.Heard())
	b.answer("good", true)
	b.ended(b.carry(), run.Waiting, "question") // slow and more were running meanwhile
	c.want(t)
}

// TestCallAgain checks that the next carrier tells a person of a question again if the call may not have
// arrived: the host died, or the call was interrupted.
func TestCallAgain(t *testing.T) {
	b := beside(t, 2, asking, nil, nil)
	c := called(t, b)
	b.do = func(Job) Done { return c.heard(2) }
	b.ended(b.carry(), run.Waiting, "approval")
	c.want(t, "good approval good: Good?", "tone question tone: Which?")
	whole := b.read("events.jsonl")
	before, _, _ := strings.Cut(whole, `"type":"called"`)
	lines := strings.Count(before, "\n")
	b.write("events.jsonl", strings.Join(strings.SplitAfter(whole, "\n")[:lines], "")) // before it was recorded
	b.carry()
	c.want(t, "good approval good: Good?", "tone question tone: Which?")

	b = beside(t, 2, asking, nil, nil)
	ctx, signal := context.WithCancel(t.Context())
	b.do = func(Job) Done { <-ctx.Done(); return Done{} }
	b.call = func(ctx context.Context, _ Asking) { signal(); <-ctx.Done() }
	s, carrier := b.carryIn(ctx)
	carrier.Host.Close()
	b.ended(s, run.Interrupted, "signal")
	c = called(t, b)
	b.do = func(Job) Done { return c.heard(2) }
	b.carry()
	c.want(t, "good approval good: Good?", "tone question tone: Which?")
}

// TestCallMeanwhile checks that the flow continues while a person is told, whatever is answered
// meanwhile, and ends after the call has returned.
func TestCallMeanwhile(t *testing.T) {
	b := beside(t, 2, asking, nil, nil)
	over := make(chan struct{})
	count := 0
	b.call = func(context.Context, Asking) { count++; <-over }
	b.do = func(job Job) Done {
		if stepOf(job) == "slow" {
			close(over)
		}
		return fine(job)
	}
	b.ended(b.carry(), run.Waiting, "approval")
	if count < 1 || count > 2 || strings.Count(b.read("events.jsonl"), `"type":"called"`) != count {
		t.Errorf("%d calls, and kept is\n%s", count, b.read("events.jsonl"))
	}
}
