package transcript

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/spec"
)

// Reader receives lines, in pieces of any size, and reports the events in them. It is not safe for
// concurrent use.
type Reader struct {
	rules *Rules
	tell  func(spec.TranscriptEvent) error

	rest    []byte // the start of a line
	dropped int    // bytes of it, if it is too long
	knew    bool   // a rule matched a line
	lines   int    // number of lines read

	session string
	told    map[said]struct{}
	row     *spoken // nil for a line
}

// said is an event of a rule that reports only once.
type said struct {
	by   *rule
	what string
}

// NewReader returns a reader that calls tell for each event. Write and Close return tell's error.
func NewReader(rules *Rules, tell func(spec.TranscriptEvent) error) *Reader {
	return &Reader{rules: rules, tell: tell, told: map[said]struct{}{}}
}

// Write adds the next piece.
func (r *Reader) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, after, found := bytes.Cut(p, []byte{'\n'})
		r.keepPiece(line)
		if !found {
			return n, nil
		}
		if err := r.endLine(); err != nil {
			return 0, err
		}
		p = after
	}
}

// Close ends the input. A last line without its end is reported: normally if it is complete, otherwise
// as cut short.
func (r *Reader) Close() error {
	if r.dropped == 0 {
		if _, cause := decode(r.rest); cause == causeNoJSON && len(bytes.TrimSpace(r.rest)) > 0 {
			err := r.unread(r.rest, causeTorn)
			r.rest = nil
			return err
		}
	}
	return r.endLine()
}

func (r *Reader) keepPiece(p []byte) {
	if r.dropped > 0 || len(r.rest)+len(p) > maxLine {
		r.dropped += len(r.rest) + len(p)
		r.rest = nil
		return
	}
	r.rest = append(r.rest, p...)
}

func (r *Reader) endLine() error {
	line, dropped := bytes.TrimSpace(r.rest), r.dropped
	r.dropped = 0
	r.lines++
	if cap(r.rest) > 1<<20 {
		r.rest = nil // free the memory
	} else {
		r.rest = r.rest[:0]
	}
	if dropped > 0 {
		return r.sendEvent(spec.TranscriptEvent{Kind: spec.TalkUnknown, Cause: causeLong}, nil)
	}
	if len(line) == 0 {
		return nil
	}
	v, cause := decode(line)
	if cause != "" {
		return r.unread(line, cause)
	}
	return r.readValue(v)
}

// maxUnread bounds the reported part of a line that cannot be read.
const maxUnread = 4 << 10

func (r *Reader) unread(line []byte, cause string) error {
	text := strings.ToValidUTF8(string(line[:min(len(line), maxUnread)]), string(utf8.RuneError))
	return r.sendEvent(spec.TranscriptEvent{Kind: spec.TalkUnknown, Cause: cause, Text: text}, nil)
}

// Lines returns the number of lines read, including the current one.
func (r *Reader) Lines() int { return r.lines }

func (r *Reader) readValue(v any) error {
	r.beginSession(r.rules.sessionOf(v))
	ended := false
	known, err := r.applyRules(r.rules.rules, v, v, &ended)
	r.knew = r.knew || known
	if err == nil && r.rules.isEndOfRun(v) && !ended {
		known = true
		err = r.sendEvent(spec.TranscriptEvent{Kind: spec.TalkEnd, Verdict: r.rules.verdict(v)}, v)
	}
	if err == nil && !known && !r.row.wasReported(nil) {
		err = r.sendEvent(unknown(v), v)
	}
	return err
}

// maxID is far longer than any ID.
const maxID = 256

func (r *Reader) beginSession(id string) {
	if id != "" && len(id) <= maxID {
		r.session = id
	}
}

func unknown(v any) spec.TranscriptEvent {
	return spec.TranscriptEvent{Kind: spec.TalkUnknown, Cause: causeNoRule, Raw: encode(v)}
}

// applyRules applies rules to a value in a line. It reports whether one matches.
func (r *Reader) applyRules(rules []*rule, v, line any, ended *bool) (known bool, err error) {
	for _, rule := range rules {
		if !rule.when.matches(v) {
			continue
		}
		if rule.kind == spec.TalkIgnore {
			return true, nil
		}
		if rule.list != nil {
			there, err := r.applyEach(rule, v, line, ended)
			if err != nil {
				return known, err
			}
			known = known || there
			continue
		}
		known = true
		ev, ok := rule.makeEvent(v)
		if !ok || r.wasReported(rule, v) || r.row.wasReported(rule) {
			continue
		}
		if ev.Kind == spec.TalkEnd && r.rules.isEndOfRun(line) {
			ev.Verdict, *ended = r.rules.verdict(line), true
		}
		if err := r.sendEvent(ev, line); err != nil {
			return known, err
		}
	}
	return known, nil
}

// applyEach applies the rules within to each element of a list.
func (r *Reader) applyEach(rule *rule, v, line any, ended *bool) (there bool, err error) {
	rule.list.each(v, func(found any) bool {
		there = true
		list, ok := found.([]any)
		if !ok {
			list = []any{found}
		}
		for _, e := range list {
			var known bool
			known, err = r.applyRules(rule.rules, e, line, ended)
			if err == nil && !known && !r.row.wasReported(nil) {
				err = r.sendEvent(unknown(e), line)
			}
			if err != nil {
				return false
			}
		}
		return true
	})
	return there, err
}

// maxTold bounds the memory of a session's events. Beyond it, repeated events are reported twice.
const maxTold = 1 << 16

// wasReported reports whether a rule has reported this before.
func (r *Reader) wasReported(by *rule, v any) bool {
	it := said{by, by.once.textAt(v)}
	if it.what == "" || len(it.what) > maxID {
		return false
	}
	if _, ok := r.told[it]; ok {
		return true
	}
	if len(r.told) >= maxTold {
		clear(r.told)
	}
	r.told[it] = struct{}{}
	return false
}

func (r *Reader) sendEvent(ev spec.TranscriptEvent, line any) error {
	if ev.Kind == spec.TalkStart {
		r.beginSession(ev.ID)
		ev.ID = ""
	}
	ev.Session = r.session
	ev.Time = timeOf(r.rules.time.firstAt(line))
	return r.tell(ev)
}
