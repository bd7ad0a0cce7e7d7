package run

import (
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Types of events that all kinds of runs have.
const (
	Began = "began" // a process carries the run on from here
	Ready = "ready" // its sandboxes exist
	Ended = "ended" // no process carries the run on any more; only [Raised] may follow
)

// Status is the state of a run in one word.
type Status string

// Statuses of a run. A run that is running and has no host was interrupted.
const (
	Queued      Status = "queued"
	Running     Status = "running"
	Waiting     Status = "waiting" // for a person, or a time
	Completed   Status = "completed"
	Failed      Status = "failed"
	Limited     Status = "limit"
	Stalled     Status = "stalled"     // a loop that makes no progress
	Aborted     Status = "aborted"     // by the agent of a loop
	Cancelled   Status = "cancelled"   // by a person
	Interrupted Status = "interrupted" // by a signal, or a crash
)

// Result says how a run ended, or that it has not ended.
type Result struct {
	Status Status `json:"status"`
	Reason string `json:"stop_reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	Signal int    `json:"-"` // the signal that interrupted it
}

// UnderWay reports whether the run has no recorded end.
func (r *Result) UnderWay() bool { return r.Status == Running || r.Status == Queued }

// Crash is the result of a run whose last process is gone.
func Crash() Result {
	return Result{Status: Interrupted, Reason: "crash", Detail: "the process that carried it on is gone"}
}

// Stopped is the result of a run that a person has ended.
func Stopped() Result { return Result{Status: Cancelled, Reason: "stopped"} }

// Crashed reports whether a crash interrupted a run. No command returned its exit code.
func (r *Result) Crashed() bool { return r.Status == Interrupted && r.Signal == 0 }

// ExitCode returns the exit code of the command that carried the run on. partly says that the run
// completed and left something undone.
func (r *Result) ExitCode(partly bool) int {
	switch r.Status {
	case Completed:
		if partly {
			return spec.ExitPartly
		}
		return spec.ExitOK
	case Aborted:
		return spec.ExitAborted
	case Waiting:
		return spec.ExitWaiting
	case Limited:
		return spec.ExitLimit
	case Stalled:
		return spec.ExitStalled
	case Cancelled:
		return spec.ExitCancelled
	case Interrupted:
		return spec.ExitSignal + r.Signal
	}
	return spec.ExitError
}

// Usage is the usage of a run so far.
type Usage struct {
	Tokens  int64         `json:"tokens"` // the figure that counts
	USD     float64       `json:"usd"`
	Metered spec.Metered  `json:"metered"` // the same, by source
	Elapsed spec.Duration `json:"elapsed"` // while a process carried the run on
	Last    time.Time     `json:"last,omitzero"`
}

// Clock adds the time until an event of a run, which was running or not. Time without a process does
// not count.
func (u *Usage) Clock(running bool, ev Event) {
	if running && ev.Type != Began && ev.Type != Raised && ev.Time.After(u.Last) {
		u.Elapsed += spec.Duration(ev.Time.Sub(u.Last))
	}
	u.Last = ev.Time
}

// Took returns how long processes have carried on a run of this status until now.
func (u *Usage) Took(status Status, now time.Time) time.Duration {
	took := time.Duration(u.Elapsed)
	if status == Running && now.After(u.Last) {
		took += now.Sub(u.Last)
	}
	return took
}
