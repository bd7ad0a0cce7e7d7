package loopplan

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Ralph is the request of an open-ralph loop, read from its state.
type Ralph struct {
	Prompt        string
	Promise       string
	Abort         string
	MinIterations int
	MaxIterations int // 0 is unlimited there
	Tasks         bool
	Agent         string
	Models        []string
	Turns         []Turn   // set for several models, or agents
	Passed        []string // ignored fields
}

// ralphState is the used part of ralph-loop.state.json.
type ralphState struct {
	Prompt            string   `json:"prompt"`
	CompletionPromise string   `json:"completionPromise"`
	AbortPromise      string   `json:"abortPromise"`
	MinIterations     int      `json:"minIterations"`
	MaxIterations     int      `json:"maxIterations"`
	TasksMode         bool     `json:"tasksMode"`
	Agent             string   `json:"agent"`
	Model             string   `json:"model"`
	Rotation          []string `json:"rotation"`
}

// maxPassed is how many ignored fields are named.
const maxPassed = 20

var ralphKeys = []string{"prompt", "completionPromise", "abortPromise", "minIterations", "maxIterations", "tasksMode", "agent", "model", "rotation"}

// ReadRalph reads the state of such a loop. It is data, perhaps from a place where agents write: unknown
// fields are named, and ignored.
func ReadRalph(data []byte) (*Ralph, error) {
	var all map[string]json.RawMessage
	var s ralphState
	err := json.Unmarshal(data, &all)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "read the state of the loop: %w", err)
	}
	r := &Ralph{Prompt: s.Prompt, Promise: s.CompletionPromise, Abort: s.AbortPromise, MinIterations: s.MinIterations, MaxIterations: s.MaxIterations, Tasks: s.TasksMode, Agent: s.Agent}
	for key := range all {
		if !slices.Contains(ralphKeys, key) {
			r.Passed = append(r.Passed, key)
		}
	}
	slices.Sort(r.Passed)
	r.Passed = r.Passed[:min(len(r.Passed), maxPassed)]
	if len(s.Rotation) > 0 {
		if r.Turns, err = Rotate(strings.Join(s.Rotation, ",")); err != nil {
			return nil, err
		}
		r.Agent = r.Turns[0].Agent
	} else if s.Model != "" {
		r.Models = []string{s.Model}
	}
	return r, nil
}
