// Package loopplan describes a loop before it begins: the plan of a person's request, the file of gates, the
// template of the agent's prompt, and a ralph loop to take over. Each is read and checked here. Package loop
// carries a plan out.
package loopplan

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Plan is a user's request for a loop.
type Plan struct {
	Agent string `json:"agent"`
	// Models are the models for the agent, one for each iteration, and then from the first again. None:
	// the agent's own choice.
	Models []string `json:"models,omitempty"`
	// Agents are the agents for each of the models, unless it is always Agent.
	Agents []string `json:"agents,omitempty"`
	// Resume makes an agent continue the session of its last iteration, instead of starting with a fresh
	// memory.
	Resume    bool   `json:"resume_session,omitempty"`
	Directory string `json:"directory"` // the host directory to work on
	Sandbox   string `json:"sandbox"`   // its ID: chosen before it is made
	Prompt    string `json:"prompt"`
	Template  string `json:"template"` // of the agent's prompt; see Prompt

	// Promise is the text between <promise> and </promise> on the last line of the agent's last message
	// when it is done. Abort is the text for giving up, if that is allowed.
	Promise string `json:"promise"`
	Abort   string `json:"abort,omitempty"`

	Until   []string `json:"until"`             // commands that exit with 0 when the work is done
	Protect []string `json:"protect,omitempty"` // files and directories, in Directory, that must not change
	// Gates are the gates of a file, as it was when the loop began.
	Gates []Criterion `json:"gates,omitempty"`
	// AllowUnchanged accepts work that changed no file, although all gates were green before: it may be
	// done elsewhere.
	AllowUnchanged bool `json:"allow_unchanged,omitempty"`

	Tasks *Tasks `json:"tasks,omitempty"` // the source of its work; nil: the prompt is all of it
	// Workers is how many work at tasks at the same time, each in a sandbox of its own. Less than two:
	// one, in the loop's sandbox.
	Workers int `json:"workers,omitempty"`

	Limits Limits `json:"limits"`
	Stall  Stall  `json:"stall"`
}

// Limits bound a loop. Zero is unlimited, except for MaxIterations and Gate.
type Limits struct {
	MinIterations int           `json:"min_iterations"` // an earlier promise does not count
	MaxIterations int           `json:"max_iterations"`
	Time          spec.Duration `json:"time,omitempty"`      // while a process carries it on
	Tokens        int64         `json:"tokens,omitempty"`    // by the gateway's count, or the agent's
	USD           float64       `json:"usd,omitempty"`       // likewise
	Iteration     spec.Duration `json:"iteration,omitempty"` // working time of the agent in each iteration
	Idle          spec.Duration `json:"idle,omitempty"`      // time without activity in an iteration
	Gate          spec.Duration `json:"gate"`                // for each command of Until
}

// Check refuses limits that would allow no loop.
func (l Limits) Check() error {
	switch {
	case l.MaxIterations < 1 || l.MinIterations < 0 || l.MinIterations > l.MaxIterations:
		return spec.Errorf(spec.ErrUsage, "iterations from %d to %d make no loop", l.MinIterations, l.MaxIterations)
	case l.Time < 0 || l.Iteration < 0 || l.Idle < 0:
		return spec.Errorf(spec.ErrUsage, "a limit is negative")
	case l.Gate <= 0:
		return spec.Errorf(spec.ErrUsage, "%s is not a possible time limit of a check", time.Duration(l.Gate))
	}
	return spec.Budget{Tokens: l.Tokens, USD: l.USD}.Check()
}

// Budget returns the limits of model usage for the whole loop.
func (p *Plan) Budget() spec.Budget { return spec.Budget{Tokens: p.Limits.Tokens, USD: p.Limits.USD} }

// Stall says how often in a row an iteration may bring no progress. Zero is unlimited.
type Stall struct {
	Unchanged int `json:"unchanged"`  // iterations that change no file
	SameRed   int `json:"same_red"`   // with the same red gates and the same output
	SameError int `json:"same_error"` // in which the agent fails in the same way
	// SameLimit is how often in a row an iteration is repeated because an allowance was used up, or a
	// provider was overloaded.
	SameLimit int `json:"same_limit"`
	Questions int `json:"questions"` // iterations that end with a question to a person
}

// UsualStall is based on experience with other loops. An agent that does not say how long it has to wait
// is asked again for six hours: allowances are for five.
var UsualStall = Stall{Unchanged: 3, SameRed: 5, SameError: 5, SameLimit: 72, Questions: 2}

// Usual returns the plan of a loop that says nothing but its prompt, its agent and its gates.
func Usual() Plan {
	return Plan{
		Template: DefaultTemplate, Promise: "COMPLETE", Workers: 1, Stall: UsualStall,
		Limits: Limits{MinIterations: 1, MaxIterations: 30, Iteration: spec.Duration(time.Hour), Gate: spec.Duration(10 * time.Minute)},
	}
}

// AddGates adds the gates and the protected paths of a file to the plan.
func (p *Plan) AddGates(g *Gates) {
	p.Gates = g.Gates
	for _, path := range g.Protect {
		if !slices.Contains(p.Protect, path) { // it would be hashed twice
			p.Protect = append(p.Protect, path)
		}
	}
	if p.Until == nil {
		p.Until = []string{}
	}
}

// Check refuses an invalid plan.
func (p *Plan) Check() error {
	fail := func(format string, args ...any) error { return spec.Errorf(spec.ErrUsage, format, args...) }
	l := p.Limits
	switch {
	case strings.TrimSpace(p.Prompt) == "":
		return fail("the prompt is empty")
	case min(p.Stall.Unchanged, p.Stall.SameRed, p.Stall.SameError, p.Stall.SameLimit, p.Stall.Questions) < 0:
		return fail("a count for stalling is negative")
	case strings.ContainsRune(p.Prompt+p.Template, 0):
		return fail("there is a zero byte in the prompt, which no program can be told")
	case strings.EqualFold(p.Promise, p.Abort):
		return fail("the two promises are the same but for the case of letters")
	}
	if err := l.Check(); err != nil {
		return err
	}
	if p.Tasks != nil {
		switch {
		case p.Tasks.Tries < 1:
			return fail("a task is to be tried %d times", p.Tasks.Tries)
		case l.MinIterations > 1:
			return fail("a loop that takes tasks ends when there are none left, and not after so many iterations")
		case !strings.Contains(p.Template, "{{task}}") && !strings.Contains(p.Template, "{{tasks}}"):
			return fail("the template has no {{task}}")
		}
	}
	if err := p.checkWorkers(); err != nil {
		return err
	}
	for _, m := range p.Models {
		if err := checkModel(m); err != nil {
			return err
		}
	}
	if len(p.Agents) > 0 && len(p.Agents) != len(p.Models) {
		return fail("%d agents take turns with %d models", len(p.Agents), len(p.Models))
	}
	for _, w := range []string{p.Promise, p.Abort} {
		if w != strings.TrimSpace(w) || strings.ContainsAny(w, "<>") || strings.ContainsFunc(w, unicode.IsControl) {
			return fail("the promise %q is not a plain line", w)
		}
	}
	if p.Promise == "" {
		return fail("the promise is empty")
	}
	for _, c := range p.Until {
		if strings.TrimSpace(c) == "" {
			return fail("a command of %s is empty", spec.Option("until"))
		}
	}
	for _, path := range p.Protect {
		if !filepath.IsLocal(path) {
			return fail("the protected path %q does not lie in the directory that is worked on", path)
		}
	}
	if err := p.checkGates(); err != nil {
		return err
	}
	return checkTemplate(p.Template)
}

// Parallel reports whether several workers work at the same time.
func (p *Plan) Parallel() bool { return p.Workers > 1 }

// TooMany returns the error for too many workers, or too few.
func TooMany(workers int) error {
	return spec.Errorf(spec.ErrUsage, "%d cannot work at the same time", workers).WithHint("there can be 1 to %d", MaxWorkers)
}

func (p *Plan) checkWorkers() error {
	switch {
	case p.Workers < 0 || p.Workers > MaxWorkers:
		return TooMany(p.Workers)
	case !p.Parallel():
		return nil
	case p.Tasks == nil:
		return spec.Errorf(spec.ErrUsage, "%d are to work at the same time, and there is but one prompt", p.Workers).
			WithHint("have each take a task of the project: %s", spec.Option("tasks"))
	case p.Resume:
		return spec.Errorf(spec.ErrUsage, "several workers begin each task with a fresh memory").
			WithHint("leave %s or %s out", spec.Option("parallel"), spec.Option("resume-session"))
	}
	return nil
}

// maxModel bounds the name of a model, in bytes.
const maxModel = 200

// checkModel refuses names that an agent could mistake for something else.
func checkModel(m string) error {
	if m == "" || len(m) > maxModel || strings.HasPrefix(m, "-") || strings.ContainsFunc(m, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return spec.Errorf(spec.ErrUsage, "%q is not the name of a model", m)
	}
	return nil
}

// ModelOf returns the model of an iteration, or "" for the agent's choice. Each of several workers
// counts its own iterations: with a common count one worker might always get the same model.
func (p *Plan) ModelOf(iteration int) string {
	if len(p.Models) == 0 {
		return ""
	}
	return p.Models[(iteration-1)%len(p.Models)]
}

// AgentOf returns the agent of an iteration.
func (p *Plan) AgentOf(iteration int) string {
	if len(p.Agents) == 0 {
		return p.Agent
	}
	return p.Agents[(iteration-1)%len(p.Agents)]
}

// Others returns the agents that take turns with Agent, each once.
func (p *Plan) Others() (list []string) {
	for _, a := range p.Agents {
		if a != p.Agent && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// Turn is an agent and its model in an iteration.
type Turn struct{ Agent, Model string }

// Rotate parses a rotation in ralph's form, "agent:model,agent:model".
func Rotate(text string) (turns []Turn, err error) {
	for turn := range strings.SplitSeq(text, ",") {
		a, m, ok := strings.Cut(strings.TrimSpace(turn), ":")
		if !ok || a == "" || m == "" {
			return nil, spec.Errorf(spec.ErrUsage, "%q of the rotation is not of the form agent:model", turn)
		}
		if err := checkModel(m); err != nil {
			return nil, err
		}
		turns = append(turns, Turn{a, m})
	}
	return turns, nil
}

// Rotate makes agents and models take turns. The sandbox belongs to the first agent.
func (p *Plan) Rotate(turns []Turn) {
	p.Agent, p.Agents, p.Models = turns[0].Agent, nil, nil
	for _, t := range turns {
		p.Agents, p.Models = append(p.Agents, t.Agent), append(p.Models, t.Model)
	}
	if len(p.Others()) == 0 {
		p.Agents = nil
	}
}

// Name replaces the agents' names by their real ones. An agent with two names is one agent, with one
// place.
func (p *Plan) Name(name func(called string) (string, error)) (err error) {
	if p.Agent != "" {
		p.Agent, err = name(p.Agent)
	}
	for i := range p.Agents {
		if err == nil {
			p.Agents[i], err = name(p.Agents[i])
		}
	}
	if len(p.Others()) == 0 {
		p.Agents = nil
	}
	return err
}

// MaxWorkers bounds the number of workers: each has a sandbox.
const MaxWorkers = 32

// Raise applies the limits that a person has changed.
func (p *Plan) Raise(l *run.Limits) {
	if l == nil {
		return
	}
	if l.Iterations != nil {
		p.Limits.MaxIterations = *l.Iterations
	}
	l.Set(&p.Limits.Time, &p.Limits.Tokens, &p.Limits.USD)
}

// Tasks says that a loop takes its work from the tasks of a project, one at a time.
type Tasks struct {
	Project string   `json:"project"`          // a directory by its real path
	Labels  []string `json:"labels,omitempty"` // a task must have all of these
	Tries   int      `json:"tries"`            // iterations at a task before it is put back
	// Restore says to restore the files from before a task that is put back, if the task left red checks
	// that were green. Otherwise no other task could be done.
	Restore bool `json:"restore,omitempty"`
}
