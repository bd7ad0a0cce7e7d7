package cmdline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// talkPage prints a transcript for people. Text from inside is indented, so that none of it looks
// like a line of ours.
type talkPage struct {
	out     io.Writer
	digest  transcript.Digest
	session string
	model   string
	open    string // the message that the last, unfinished line belongs to; empty: none
}

// Bounds of the shown part of a tool's input, in characters, and of its result.
const (
	inputWidth   = 160
	resultLines  = 8
	resultWidth  = 200
	unknownWidth = 100
)

// showEvent prints the next event.
func (p *talkPage) showEvent(ev spec.TranscriptEvent) error {
	p.digest.Add(ev)
	var b strings.Builder
	p.showHead(&b, ev)
	if p.open == "" || p.open != messageOf(ev) {
		p.closeLine(&b)
		messageTitle(&b, ev)
	}
	p.showBody(&b, ev)
	_, err := io.WriteString(p.out, b.String())
	return err
}

// messageOf identifies the message that a piece belongs to.
func messageOf(ev spec.TranscriptEvent) string {
	switch ev.Kind {
	case spec.TalkMessage, spec.TalkThinking:
		return ev.Kind + " " + ev.Role
	}
	return ""
}

// showHead prints the session and the model when they change.
func (p *talkPage) showHead(b *strings.Builder, ev spec.TranscriptEvent) {
	if ev.Session != p.session {
		p.session, p.model = ev.Session, ""
		p.closeLine(b)
		fmt.Fprintf(b, "session %s", term.Sanitize(p.session))
		if !ev.Time.IsZero() {
			fmt.Fprintf(b, ", %s", ev.Time.Local().Format(time.DateTime))
		}
		b.WriteByte('\n')
	}
	if ev.Model != "" && ev.Model != p.model {
		p.model = ev.Model
		p.closeLine(b)
		fmt.Fprintf(b, "model %s\n", term.Sanitize(p.model))
	}
}

// closeLine ends an unfinished line.
func (p *talkPage) closeLine(b *strings.Builder) {
	if p.open != "" {
		b.WriteByte('\n')
		p.open = ""
	}
}

// messageTitle prints the line above a message.
func messageTitle(b *strings.Builder, ev spec.TranscriptEvent) {
	switch ev.Kind {
	case spec.TalkMessage:
		fmt.Fprintf(b, "%s:\n  ", ev.Role)
	case spec.TalkThinking:
		b.WriteString("agent, thinking:\n  ")
	}
}

func (p *talkPage) showBody(b *strings.Builder, ev spec.TranscriptEvent) {
	switch ev.Kind {
	case spec.TalkMessage, spec.TalkThinking:
		text := console.Printable(ev.Text)
		p.open = messageOf(ev)
		if !ev.Partial {
			text = strings.TrimRight(text, "\n")
		}
		b.WriteString(strings.ReplaceAll(text, "\n", "\n  "))
		if !ev.Partial {
			p.closeLine(b)
		}
	case spec.TalkToolCall:
		fmt.Fprintf(b, "tool %s: %s\n", cmp.Or(term.Sanitize(ev.Tool), "without a name"), inputText(ev.Input))
	case spec.TalkToolResult:
		b.WriteString(resultText(ev))
	case spec.TalkLimit:
		fmt.Fprintf(b, "limit: %s", FirstLine(console.Printable(ev.Text), resultWidth))
		if !ev.Until.IsZero() {
			fmt.Fprintf(b, ", until %s", ev.Until.Local().Format(time.DateTime))
		}
		b.WriteByte('\n')
	case spec.TalkError:
		fmt.Fprintf(b, "error: %s\n", term.Sanitize(FirstLine(ev.Text, resultWidth)))
	case spec.TalkEnd:
		fmt.Fprintf(b, "end: %s", cmp.Or(ev.Verdict, "of a turn"))
		if ev.Verdict != spec.VerdictOK && ev.Text != "" {
			fmt.Fprintf(b, ": %s", term.Sanitize(FirstLine(ev.Text, resultWidth)))
		}
		b.WriteByte('\n')
	case spec.TalkUnknown:
		fmt.Fprintf(b, "unknown (%s): %s\n", ev.Cause, term.Sanitize(term.Shorten(cmp.Or(string(ev.Raw), ev.Text), unknownWidth)))
	}
}

// inputText formats a tool's input on one line: its only text, or its members by name.
func inputText(input json.RawMessage) string {
	var text string
	if json.Unmarshal(input, &text) == nil {
		return term.Sanitize(term.Shorten(text, inputWidth))
	}
	var members map[string]any
	if json.Unmarshal(input, &members) != nil {
		return term.Sanitize(term.Shorten(string(input), inputWidth))
	}
	if len(members) == 1 {
		for _, v := range members {
			if s, ok := v.(string); ok {
				return term.Sanitize(term.Shorten(s, inputWidth))
			}
		}
	}
	var words []string
	for _, k := range slices.Sorted(maps.Keys(members)) {
		words = append(words, k+"="+memberText(members[k]))
	}
	return term.Sanitize(term.Shorten(strings.Join(words, " "), inputWidth))
}

// memberWidth bounds one member of an input, in characters.
const memberWidth = 60

func memberText(v any) string {
	if s, ok := v.(string); ok && s != "" && !strings.ContainsAny(s, " \t\n\"") {
		return term.Shorten(s, memberWidth)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // for people > is a redirection, not \u003e
	if e.Encode(v) != nil {
		return ""
	}
	return term.Shorten(strings.TrimSuffix(b.String(), "\n"), memberWidth)
}

// resultText formats a tool's answer, or the beginning of it.
func resultText(ev spec.TranscriptEvent) string {
	mark := "  | "
	if ev.Failed {
		mark = "  ! "
	}
	text := strings.TrimRight(console.Printable(ev.Text), "\n")
	switch {
	case text == "" && !ev.Failed:
		return ""
	case text == "":
		text = "failed"
	}
	lines := strings.Split(text, "\n")
	more := len(lines) - resultLines
	var b strings.Builder
	for _, l := range lines[:min(len(lines), resultLines)] {
		b.WriteString(mark + term.Shorten(l, resultWidth) + "\n")
	}
	if more > 0 {
		fmt.Fprintf(&b, "%s… %d lines more\n", mark, more)
	}
	return b.String()
}

// FirstLine returns the first line of text, with a mark if more lines follow.
func FirstLine(s string, width int) string {
	line, more, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if more != "" && len(line) < width {
		line += " …"
	}
	return term.Shorten(line, width)
}

// showUsage prints the usage.
func (p *talkPage) showUsage() error {
	var b strings.Builder
	p.closeLine(&b)
	d := p.digest
	if u := d.Usage; u != (spec.TranscriptUsage{}) {
		fmt.Fprintf(&b, "used %d tokens in", u.Input)
		if n := u.Cached + u.CacheWrite; n > 0 {
			fmt.Fprintf(&b, " (cache: %d read, %d written)", u.Cached, u.CacheWrite)
		}
		fmt.Fprintf(&b, ", %d out", u.Output)
		if u.USD > 0 {
			fmt.Fprintf(&b, ", %.4f USD", u.USD)
		}
		fmt.Fprintf(&b, "; %d tool calls, %d failed\n", d.Calls, d.Failed)
	}
	_, err := io.WriteString(p.out, b.String())
	return err
}

// Teller returns a function that takes events, and one to call after the last.
func (a *App) Teller() (tell func(spec.TranscriptEvent) error, end func() error) {
	if a.JSON {
		return a.printEvent, func() error { return nil }
	}
	p := &talkPage{out: a.Out}
	return p.showEvent, p.showUsage
}

// printEvent prints an event as a line of JSON.
func (a *App) printEvent(ev spec.TranscriptEvent) error {
	b, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s\n", term.EscapeJSON(b))
	return err
}
