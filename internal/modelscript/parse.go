package modelscript

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/bothy-dev/bothy/internal/strictyaml"
)

// MaxBytes bounds the text of a script. The server stores an answer once for each request that gets it.
const MaxBytes = 1 << 20

// Parse reads a script in YAML or JSON. An unknown or repeated key, and anything that [Script.Check]
// rejects, is an error with its position.
func Parse(data []byte) (Script, error) {
	if len(data) > MaxBytes {
		return Script{}, fmt.Errorf("read script: it is larger than %d bytes", MaxBytes)
	}
	var s Script
	if err := strictyaml.Unmarshal(data, &s); err != nil {
		return Script{}, fmt.Errorf("read script:\n%w", err)
	}
	if _, err := s.Check(); err != nil {
		return Script{}, located(data, err)
	}
	return s, nil
}

// flaw is an error in a part of a script.
type flaw struct {
	path string // of the part, as YAMLPath writes it
	what string // for people
	err  error
}

func (f *flaw) Error() string { return "check " + f.what + ": " + f.err.Error() }

func (f *flaw) Unwrap() error { return f.err }

// located adds the line where the part begins.
func located(data []byte, err error) error {
	f, ok := errors.AsType[*flaw](err)
	if !ok {
		return err
	}
	line := strictyaml.LineOf(data, f.path)
	if line == 0 {
		return err
	}
	return fmt.Errorf("line %d: %w", line, err)
}

// Checked is a conversation that can be played.
type Checked struct {
	Match *regexp.Regexp
	Turns []Turn
}

// Check reports whether a script can be played, and returns its conversations in the order in which they
// are tried. The conversation of the script's own turns comes last.
func (s Script) Check() ([]Checked, error) {
	var out []Checked
	for i, c := range s.Conversations {
		what, path := fmt.Sprintf("conversation %d", i), fmt.Sprintf("$.conversations[%d]", i)
		held, err := c.checkTurns(what, path)
		if err != nil {
			return nil, err
		}
		out = append(out, held)
	}
	if len(s.Turns) > 0 {
		held, err := Conversation{Turns: s.Turns}.checkTurns(fmt.Sprintf("conversation %d", len(out)), "$")
		if err != nil {
			return nil, err
		}
		out = append(out, held)
	}
	if len(out) == 0 {
		return nil, errors.New("check script: it has neither turns nor conversations")
	}
	return out, nil
}

func (c Conversation) checkTurns(what, path string) (Checked, error) {
	match, err := regexp.Compile(c.Match)
	if err != nil {
		return Checked{}, &flaw{path, what, err}
	}
	if len(c.Turns) == 0 {
		return Checked{}, &flaw{path, what, errors.New("it has no turns")}
	}
	for n, t := range c.Turns {
		if err := t.checkParts(); err != nil {
			return Checked{}, &flaw{fmt.Sprintf("%s.turns[%d]", path, n), fmt.Sprintf("%s, turn %d", what, n), err}
		}
	}
	return Checked{match, c.Turns}, nil
}

func (t Turn) checkParts() error {
	if t.Delay < 0 || t.Delay == Forever {
		return errors.New("delay must end, and not before it begins")
	}
	if t.Usage.Input < 0 || t.Usage.Output < 0 || t.Usage.Cached < 0 || t.Usage.Cached > t.Usage.Input {
		return errors.New("usage must be positive, and cached a part of input")
	}
	for i, tool := range t.Tools {
		if err := tool.checkTool(); err != nil {
			return fmt.Errorf("tool %d: %w", i, err)
		}
	}
	says := t.Text != "" || len(t.Tools) > 0
	if t.Fail == nil {
		if !says {
			return errors.New("neither text nor tools nor a failure")
		}
		return nil
	}
	if err := t.Fail.checkFailure(); err != nil {
		return fmt.Errorf("fail: %w", err)
	}
	switch needs := t.Fail.Times > 0 || t.Fail.After > 0; {
	case needs && !says:
		return errors.New("fail: neither text nor tools if the failure comes before or later")
	case !needs && says:
		return errors.New("fail: text and tools would never be sent")
	}
	return nil
}

func (t Tool) checkTool() error {
	switch n := countTrue(t.WriteFile != nil, t.RunCommand != nil, t.ReadFile != nil, t.MCP != nil, t.Raw != nil); {
	case n != 1:
		return fmt.Errorf("%d of write_file, run_command, read_file, mcp and raw, not one", n)
	case t.WriteFile != nil && t.WriteFile.Path == "":
		return errors.New("write_file: no path")
	case t.RunCommand != nil && t.RunCommand.Command == "":
		return errors.New("run_command: no command")
	case t.ReadFile != nil && t.ReadFile.Path == "":
		return errors.New("read_file: no path")
	case t.MCP != nil && (t.MCP.Server == "" || t.MCP.Tool == ""):
		return errors.New("mcp: no server or no tool")
	case t.Raw != nil && t.Raw.Name == "":
		return errors.New("raw: no name")
	case t.Raw != nil && t.Raw.Input != "" && t.Raw.Arguments != nil:
		return errors.New("raw: input and arguments")
	case t.Raw != nil:
		return representable(t.Raw.Arguments)
	case t.MCP != nil:
		return representable(t.MCP.Arguments)
	}
	return nil
}

// representable rejects arguments that YAML or Go can express and JSON cannot.
func representable(args map[string]any) error {
	_, err := json.Marshal(args)
	return err
}

func (f Failure) checkFailure() error {
	ofStatus := f.Type != "" || f.Message != "" || f.Body != "" || f.Headers != nil || f.RetryAfter != 0 || f.Limit != nil
	switch n := countTrue(f.Status != 0, f.Hang != 0, f.Cut); {
	case n != 1:
		return fmt.Errorf("%d of status, hang and cut, not one", n)
	case f.Times < 0 || f.After < 0 || f.Hang < 0:
		return errors.New("negative")
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("status %d is not an error", f.Status)
	case f.After > 0 && (f.Body != "" || f.Headers != nil || f.RetryAfter != 0 || f.Limit != nil):
		return errors.New("after events, a failure has no headers and no body: only type and message")
	case f.Status == 0 && ofStatus:
		return errors.New("type, message, body, headers, retry_after and limit belong to status")
	case f.RetryAfter < 0 || f.RetryAfter == Forever:
		return errors.New("retry_after must end, and not before it begins")
	}
	return f.Limit.checkLimit(f)
}

func (l *Limit) checkLimit(f Failure) error {
	switch {
	case l == nil:
		return nil
	case f.Status != 429:
		return errors.New("limit belongs to status 429")
	case f.Body != "":
		return errors.New("limit and body")
	case l.Kind != LimitRate && l.Kind != LimitSubscription:
		return fmt.Errorf("limit: kind %q is neither rate nor subscription", l.Kind)
	case l.Resets <= 0 || l.Resets == Forever:
		return errors.New("limit: resets must be a time to come")
	}
	return nil
}

// countTrue returns the number of true values.
func countTrue(facts ...bool) (n int) {
	for _, f := range facts {
		if f {
			n++
		}
	}
	return n
}
