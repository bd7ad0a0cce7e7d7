package meter

import (
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// An answer that began with status 200 may report in its stream that it goes on no further:
// Anthropic by an event "error", OpenAI by "response.failed", others by a document with an error in
// it. For the question, that equals a refusal by the status.

// refusal is the current document's part about that.
type refusal struct {
	kind, code     string // of the document itself
	limited, laden bool   // too many requests; overloaded
	resets         int64  // when the limit ends, in seconds since 1970
	in             int64  // or in how many seconds
}

// noteValue notes the value at a path of the document.
func (r *refusal) noteValue(path, text string) {
	switch path {
	case "type":
		r.kind = text
	case "code":
		r.code = text
	}
	switch strings.TrimPrefix(path, "response.") {
	case "error.type", "error.code", "error.status":
		r.called(text)
	case "error.resets_at":
		r.resets, _ = number(text)
	case "error.resets_in_seconds":
		r.in, _ = number(text)
	}
}

// called notes the name of the error: its type, code or status. The numbers are HTTP's.
func (r *refusal) called(name string) {
	switch name {
	case "rate_limit_error", "rate_limit_exceeded", "usage_limit_reached", "insufficient_quota", "RESOURCE_EXHAUSTED", "429":
		r.limited = true
	case "overloaded_error", "server_is_overloaded", "slow_down", "service_unavailable_error", "UNAVAILABLE", "502", "503", "504", "529":
		r.laden = true
	}
}

// retryTime returns when the provider can be asked again, if it said so.
func (r *refusal) retryTime(at time.Time) time.Time {
	until := time.Time{}
	switch {
	case r.resets > 0:
		until = time.Unix(r.resets, 0).UTC()
	case r.in > 0 && r.in <= int64(maxReset/time.Second):
		until = at.Add(time.Duration(r.in) * time.Second)
	}
	if until.Before(at) || until.Sub(at) > maxReset {
		return time.Time{}
	}
	return until
}

// maxReset is the longest believable limit: allowances are for a month at most.
const maxReset = 32 * 24 * time.Hour

// refuses is called at the end of a document. It ignores names that are not an error's.
func (t *Tally) refuses(at time.Time) {
	r := t.refusal
	t.refusal = refusal{}
	if t.from == "" || r.kind != "" && r.kind != "error" && r.kind != "response.failed" {
		return
	}
	if r.kind == "error" {
		r.called(r.code)
	}
	l := spec.Limited{At: at, Host: t.from, Until: r.retryTime(at)}
	switch {
	case r.limited:
		t.Limited(l)
	case r.laden:
		t.Overloaded(l)
	}
}
