package modelserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/goccy/go-yaml"
)

// Parse reads a script in YAML or JSON. An unknown or repeated key, and whatever
// [New] would refuse, is an error.
func Parse(data []byte) (Script, error) {
	var s Script
	d := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := d.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return Script{}, fmt.Errorf("read script:\n%s", yaml.FormatError(err, false, true))
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return Script{}, errors.New("read script: more than one document")
	}
	if _, err := compile(s); err != nil {
		return Script{}, err
	}
	return s, nil
}

// conversation is one that has been checked.
type conversation struct {
	match *regexp.Regexp
	turns []Turn
}

// compile checks a script. The default conversation comes last.
func compile(s Script) ([]conversation, error) {
	all := s.Conversations
	if len(s.Turns) > 0 {
		all = append(slices.Clip(all), Conversation{Turns: s.Turns})
	}
	if len(all) == 0 {
		return nil, errors.New("check script: it has neither turns nor conversations")
	}
	var out []conversation
	for i, c := range all {
		match, err := regexp.Compile(c.Match)
		if err != nil {
			return nil, fmt.Errorf("check conversation %d: %w", i, err)
		}
		if len(c.Turns) == 0 {
			return nil, fmt.Errorf("check conversation %d: it has no turns", i)
		}
		for n, t := range c.Turns {
			if err := t.check(); err != nil {
				return nil, fmt.Errorf("check conversation %d, turn %d: %w", i, n, err)
			}
		}
		out = append(out, conversation{match, c.Turns})
	}
	return out, nil
}

func (t Turn) check() error {
	if t.Delay < 0 || t.Delay == Forever {
		return errors.New("delay must end, and not before it begins")
	}
	if t.Usage.Input < 0 || t.Usage.Output < 0 || t.Usage.Cached < 0 || t.Usage.Cached > t.Usage.Input {
		return errors.New("usage must be positive, and cached a part of input")
	}
	for i, tool := range t.Tools {
		if err := tool.check(); err != nil {
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
	if err := t.Fail.check(); err != nil {
		return fmt.Errorf("fail: %w", err)
	}
	switch needs := t.Fail.Times > 0 || t.Fail.After > 0; {
	case needs && !says:
		return errors.New("fail: neither text nor tools for what is sent before or later")
	case !needs && says:
		return errors.New("fail: text and tools would never be sent")
	}
	return nil
}

func (t Tool) check() error {
	switch n := count(t.WriteFile != nil, t.RunCommand != nil, t.ReadFile != nil, t.MCP != nil, t.Raw != nil); {
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

// representable refuses arguments that YAML or Go have and JSON has not.
func representable(args map[string]any) error {
	_, err := json.Marshal(args)
	return err
}

func (f Failure) check() error {
	ofStatus := f.Type != "" || f.Message != "" || f.Body != "" || f.Headers != nil || f.RetryAfter != 0 || f.Limit != nil
	switch n := count(f.Status != 0, f.Hang != 0, f.Cut); {
	case n != 1:
		return fmt.Errorf("%d of status, hang and cut, not one", n)
	case f.Times < 0 || f.After < 0 || f.Hang < 0:
		return errors.New("negative")
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("status %d is no error", f.Status)
	case f.Status != 0 && f.After > 0:
		return errors.New("after belongs to hang and cut")
	case f.Status == 0 && ofStatus:
		return errors.New("type, message, body, headers, retry_after and limit belong to status")
	case f.RetryAfter < 0 || f.RetryAfter == Forever:
		return errors.New("retry_after must end, and not before it begins")
	}
	return f.Limit.check(f)
}

func (l *Limit) check(f Failure) error {
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

// count is how many of them hold.
func count(facts ...bool) (n int) {
	for _, f := range facts {
		if f {
			n++
		}
	}
	return n
}
