package gateway

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/advice"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// journal records decisions, and how flows end.
type journal struct {
	sandbox  string
	write    func(spec.NetworkRecord)
	policy   *atomic.Pointer[policy.Policy] // its generation is that of records that no rule decided
	refusals advice.Refusals
	numbers  numbers // of flows
}

func newJournal(sandbox string, write func(spec.NetworkRecord), p *atomic.Pointer[policy.Policy]) *journal {
	return &journal{sandbox: sandbox, write: write, policy: p, numbers: numbers{run: strconv.FormatInt(time.Now().UnixMicro(), 36)}}
}

// record completes a record and passes it on.
func (j *journal) record(r spec.NetworkRecord) {
	r.Sandbox = j.sandbox
	if r.Generation == 0 { // no rule was asked
		r.Generation = j.policy.Load().Generation()
	}
	j.refusals.Note(r)
	j.write(r)
}

// decided copies a decision into a record.
func (j *journal) decided(r spec.NetworkRecord, d *policy.Decision) spec.NetworkRecord {
	r.Generation, r.Verdict, r.Reason = d.Generation, spec.VerdictAllow, d.Reason()
	if d.Rule != nil {
		r.Rule, r.Source = d.Rule.String(), d.Rule.Source.String()
	}
	if !d.Allowed() {
		r.Verdict = spec.VerdictDeny
		j.advise(&r, d.Suggest())
	}
	return r
}

// advise writes into a record the command that would allow the recorded event.
func (j *journal) advise(r *spec.NetworkRecord, s policy.Suggestion) {
	r.Suggest, r.Guessed = s.Command(j.sandbox), s.Guessed()
}

// nothingThere records an attempt to connect to the gateway itself where it does not answer.
func (j *journal) nothingThere(a *netstack.Attempt) {
	j.refuseLocal(a, fmt.Sprintf("it is the sandbox's own gateway, which answers for names at port 53 and why at port 80 (%s)", advice.Name))
}

// refuseLocal records that a connection to the gateway itself is refused.
func (j *journal) refuseLocal(a *netstack.Attempt, why string) {
	j.record(spec.NetworkRecord{
		Event: spec.NetworkFlow, Protocol: "tcp", Addr: a.To.Addr(), Port: a.To.Port(), Verdict: spec.VerdictDeny, Reason: why,
	})
}

// numbers tell flows apart, also from those of another run of the sandbox.
type numbers struct {
	run  string
	last atomic.Uint64
}

func (n *numbers) nextNumber() string { return n.run + "-" + strconv.FormatUint(n.last.Add(1), 10) }
