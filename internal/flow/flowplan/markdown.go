package flowplan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/strictyaml"
)

// markdown is the front matter of a Looplia workflow.
type markdown struct {
	Name        string   `json:"name"`
	Version     Text     `json:"version"`
	Description string   `json:"description"`
	Skills      []string `json:"skills"`
	Steps       []struct {
		ID       string       `json:"id"`
		Skill    string       `json:"skill"`
		Mission  string       `json:"mission"`
		Input    oneOrMore    `json:"input"`
		Output   string       `json:"output"`
		Needs    []string     `json:"needs"`
		Model    string       `json:"model"`
		Validate *gate.Checks `json:"validate"`
		Final    bool         `json:"final"`
	} `json:"steps"`
}

// oneOrMore is a string, or a list of them.
type oneOrMore []string

// UnmarshalJSON reads both forms.
func (o *oneOrMore) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*o = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(o))
}

// fromMarkdown reads the front matter; the rest is for people.
func fromMarkdown(data []byte) (*Flow, error) {
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	head, ok := bytes.CutPrefix(data, []byte("---\n"))
	if !ok {
		return nil, errors.New("it does not begin with --- and YAML")
	}
	head, _, ok = bytes.Cut(head, []byte("\n---"))
	if !ok {
		return nil, errors.New("the YAML does not end with ---")
	}
	var m markdown
	if err := strictyaml.Decode(head, &m); err != nil {
		return nil, err
	}
	f := &Flow{Name: m.Name, Version: m.Version, Description: m.Description}
	for _, in := range m.Steps {
		if in.Mission == "" {
			return nil, fmt.Errorf("step %s: the mission is missing", in.ID)
		}
		s := Step{ID: in.ID, Needs: in.Needs, Model: in.Model, Prompt: in.Mission, Output: in.Output, Validate: in.Validate, Final: in.Final}
		if in.Skill != "" {
			s.Prompt = "Use your skill " + in.Skill + ", if you have it.\n\n" + in.Mission
		}
		if in.Input != nil {
			s.Inputs = (*[]string)(&in.Input)
		}
		f.Steps = append(f.Steps, s)
		f.declare(in.Input)
	}
	return f, nil
}

// declare adds files of inputs/ that steps name: Looplia does not declare them.
func (f *Flow) declare(inputs []string) {
	for _, in := range inputs {
		name, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(in), "${{ sandbox }}/"), "inputs/")
		if !ok || slices.ContainsFunc(f.Inputs, func(i Input) bool { return i.File == name }) {
			continue
		}
		stem, _, _ := strings.Cut(name, ".")
		f.Inputs = append(f.Inputs, Input{Name: stem, File: name, Required: true})
	}
}
