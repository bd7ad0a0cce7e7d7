package transcript

import "github.com/bothy-dev/bothy/spec"

// Digest is the summary of a run. Its zero value is a run without output.
type Digest struct {
	Session string               // the session to continue
	Calls   int                  // of tools
	Failed  int                  // of these
	Usage   spec.TranscriptUsage // all of it
	End     *spec.TranscriptEvent
	Limit   *spec.TranscriptEvent // the last one
	Unknown int

	said    []byte // last, because it may consist of a million pieces
	partial bool
	perID   map[string]spec.TranscriptUsage
}

// Add adds the next event.
func (d *Digest) Add(ev spec.TranscriptEvent) {
	if ev.Session != "" {
		d.Session = ev.Session
	}
	switch ev.Kind {
	case spec.TalkMessage:
		d.message(ev)
	case spec.TalkToolCall:
		d.Calls++
	case spec.TalkToolResult:
		if ev.Failed {
			d.Failed++
		}
	case spec.TalkUsage:
		d.addUsage(ev.ID, *ev.Usage)
	case spec.TalkLimit:
		d.Limit = &ev
	case spec.TalkEnd:
		d.End = &ev
	case spec.TalkUnknown:
		d.Unknown++
	}
	if ev.Kind != spec.TalkMessage && ev.Kind != spec.TalkUsage {
		d.partial = false
	}
}

func (d *Digest) message(ev spec.TranscriptEvent) {
	if ev.Role != spec.RoleAgent {
		d.partial = false
		return
	}
	if !d.partial || len(d.said) >= maxLine {
		d.said = nil
	}
	d.said = append(d.said, ev.Text...)
	d.partial = ev.Partial
}

// Message returns the agent's last message.
func (d *Digest) Message() string { return string(d.said) }

func (d *Digest) addUsage(id string, u spec.TranscriptUsage) {
	if u.Total {
		u.Total = false
		d.Usage, d.perID = u, nil
		return
	}
	if id != "" && len(id) <= maxID {
		before := d.perID[id]
		if d.perID == nil || len(d.perID) >= maxTold {
			d.perID = map[string]spec.TranscriptUsage{}
		}
		d.perID[id] = u
		d.Usage = addTimes(d.Usage, before, -1)
	}
	d.Usage = addTimes(d.Usage, u, 1)
}

func addTimes(a, b spec.TranscriptUsage, times int64) spec.TranscriptUsage {
	a.Input += times * b.Input
	a.Cached += times * b.Cached
	a.CacheWrite += times * b.CacheWrite
	a.Output += times * b.Output
	a.Reasoning += times * b.Reasoning
	a.USD += float64(times) * b.USD
	return a
}

// Verdict returns the verdict of a run that ended with a status. The run is good if the
// status is 0, its last end is a success, and something was said or done. An agent that
// reported no end crashed, whatever the status.
func (d *Digest) Verdict(status int) string {
	switch {
	case d.End != nil && d.End.Verdict == spec.VerdictLimit:
		return spec.VerdictLimit
	case status == 0 && d.End != nil && d.End.Verdict == spec.VerdictOK && (len(d.said) > 0 || d.Calls > 0):
		return spec.VerdictOK
	}
	return spec.VerdictFailed
}
