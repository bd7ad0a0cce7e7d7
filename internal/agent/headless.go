package agent

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent/transcript"
	"github.com/bothy-dev/bothy/spec"
)

// OutputText is the output format of a program without events. Any other name is a format
// with events, which the description defines.
const OutputText = "text"

// Placeholder words in the arguments of a headless run.
const (
	wordPrompt  = "{prompt}"
	wordSession = "{session}"
	wordModel   = "{model}"
	wordLimit   = "{limit}"
	wordServers = "{servers}"
)

var words = []string{wordPrompt, wordSession, wordModel, wordLimit, wordServers}

func checkHeadless(h *spec.AgentHeadless) error {
	if h == nil {
		return nil
	}
	inPrompt := wordPrompt
	if h.Prompt.Stdin {
		inPrompt = ""
	}
	for _, args := range []struct {
		key  string
		args []string
		word string // must occur in one of them; if empty, no word may occur
		none bool   // they may be missing
	}{
		{"args", h.Args, "", false},
		{"prompt", h.Prompt.Args, inPrompt, h.Prompt.Stdin},
		{"model", h.Model, wordModel, true},
		{"limits: turns", h.Limits.Turns, wordLimit, true},
		{"limits: usd", h.Limits.USD, wordLimit, true},
	} {
		if err := checkWords("headless: "+args.key, args.args, args.word, args.none); err != nil {
			return err
		}
	}
	if err := checkOutput(h); err != nil {
		return err
	}
	if err := checkSession(h.Session); err != nil {
		return err
	}
	return checkMCP(h.MCP)
}

// checkWords requires one placeholder word in arguments, and no other.
func checkWords(key string, args []string, word string, none bool) error {
	if len(args) == 0 {
		if none {
			return nil
		}
		return spec.Errorf(spec.ErrUsage, "%s: arguments are missing", key)
	}
	all := strings.Join(args, "\x00")
	for _, w := range words {
		n := strings.Count(all, w)
		switch {
		case w == word && n != 1:
			return spec.Errorf(spec.ErrUsage, "%s: %s must occur once", key, w)
		case w != word && n > 0:
			return spec.Errorf(spec.ErrUsage, "%s: %s has no meaning there", key, w)
		}
	}
	return nil
}

// checkOutput requires that each success is also an end.
func checkOutput(h *spec.AgentHeadless) error {
	if CheckName(h.Output) != nil {
		return spec.Errorf(spec.ErrUsage, "headless: output: %q is not the name of a format: use %s, events, or another one of lower-case letters, digits and '-'", h.Output, OutputText)
	}
	if events := len(h.End) + len(h.Success); h.Output == OutputText {
		if events > 0 || h.Session != nil || h.Events != nil || h.Linger != 0 {
			return spec.Errorf(spec.ErrUsage, "headless: text has no events: leave out end, success, linger, session and events")
		}
		return nil
	}
	if h.Linger < 0 {
		return spec.Errorf(spec.ErrUsage, "headless: linger: %s is negative", time.Duration(h.Linger))
	}
	if len(h.End) == 0 || len(h.Success) == 0 {
		return spec.Errorf(spec.ErrUsage, "headless: end and success must name events")
	}
	for _, e := range slices.Concat(h.End, h.Success) {
		if len(e) == 0 {
			return spec.Errorf(spec.ErrUsage, "headless: an event without a field matches everything")
		}
	}
	for _, s := range h.Success {
		if !slices.ContainsFunc(h.End, func(end spec.AgentEvent) bool { return implies(s, end) }) {
			return spec.Errorf(spec.ErrUsage, "headless: success: %v is not one of end", s)
		}
	}
	if h.Events == nil {
		return nil
	}
	if _, err := transcript.ForOutput(h); err != nil {
		return spec.Errorf(spec.ErrUsage, "headless: events: %w", err)
	}
	return nil
}

func checkTranscript(t *spec.AgentTranscript) error {
	if t == nil {
		return nil
	}
	var err error
	if t.Database != nil {
		err = transcript.CheckDatabase(t)
	} else {
		err = transcript.CheckFiles(t.Files)
	}
	if err == nil {
		_, err = transcript.ForTranscript(t)
	}
	if err != nil {
		return spec.Errorf(spec.ErrUsage, "transcript: %w", err)
	}
	return nil
}

// implies reports whether every match of one also matches the other.
func implies(e, other spec.AgentEvent) bool {
	for field, value := range other {
		if got, ok := e[field]; !ok || got != value {
			return false
		}
	}
	return true
}

func checkSession(s *spec.AgentSession) error {
	if s == nil {
		return nil
	}
	if err := checkWords("headless: session: new", s.New, wordSession, true); err != nil {
		return err
	}
	if err := checkWords("headless: session: resume", s.Resume, wordSession, false); err != nil {
		return err
	}
	if len(s.Event) == 0 || s.Field == "" {
		return spec.Errorf(spec.ErrUsage, "headless: session: event and field must say where it is told")
	}
	return nil
}

func checkMCP(m *spec.AgentMCP) error {
	if m == nil {
		return nil
	}
	fail := usageIn("headless: mcp")
	switch {
	case (len(m.Args) == 0) == (m.File == ""):
		return fail("either args or a file")
	case m.Key == "":
		return fail("key is missing")
	case m.Entry != "command" && m.Entry != "list":
		return fail("entry is %q, not command or list", m.Entry)
	case m.File == "":
		return checkWords("headless: mcp: args", m.Args, wordServers, false)
	case !localFile(m.File):
		return fail(notLocal, m.File)
	}
	if ext := path.Ext(m.File); ext != ".json" && ext != ".toml" {
		return fail("%s is neither JSON nor TOML by its name", m.File)
	}
	return nil
}
