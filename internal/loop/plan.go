// Package loop has an agent work at one task again and again, each time with a fresh
// memory (or, by choice, the one it has), until it says that it is done and checks out of its reach agree, or until a
// limit is reached or nothing moves any more.
//
// It decides and does nothing itself: how a loop stands is a fold over its events
// (see package run), what comes next is a function of that, and whoever runs agents
// and gates is behind an interface. So a loop goes on after a crash with the first
// step that has no result, and all of it can be tested without a sandbox.
package loop

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/bothy-dev/bothy/spec"
)

// Plan is what a loop was asked to do.
type Plan struct {
	Agent string `json:"agent"`
	// Models are which the agent is to use, one an iteration and then from the first
	// again. None: its own choice.
	Models []string `json:"models,omitempty"`
	// Agents are who works with each of them, if that is not always Agent.
	Agents []string `json:"agents,omitempty"`
	// Resume has an agent go on with the session of its last iteration, instead of
	// beginning with a fresh memory.
	Resume    bool   `json:"resume_session,omitempty"`
	Directory string `json:"directory"` // of the host, that is worked on
	Sandbox   string `json:"sandbox"`   // its ID: chosen before it is made
	Prompt    string `json:"prompt"`
	Template  string `json:"template"` // of what the agent is told; see Prompt

	// Promise is what the agent says between <promise> and </promise>, on the last
	// line of its last message, when it is done; Abort when it gives up, if it may.
	Promise string `json:"promise"`
	Abort   string `json:"abort,omitempty"`

	Until   []string `json:"until"`             // commands that end with 0 when the work is done
	Protect []string `json:"protect,omitempty"` // files and directories, in Directory, that must stay as they are
	// Gates are those of a file, as it was when the loop began.
	Gates []Criterion `json:"gates,omitempty"`
	// AllowUnchanged believes that something is done for which no file was changed, although
	// all that judges was green before: it is work that changes none, or done elsewhere.
	AllowUnchanged bool `json:"allow_unchanged,omitempty"`

	Tasks *Tasks `json:"tasks,omitempty"` // it takes its work from; nil: the prompt is all of it
	// Workers are so many who work at tasks at the same time, each in a sandbox of its own.
	// Less than two: one, in the loop's sandbox.
	Workers int `json:"workers,omitempty"`

	Limits Limits `json:"limits"`
	Stall  Stall  `json:"stall"`
}

// Limits bound a loop. Zero is no limit, but for MaxIterations and Gate.
type Limits struct {
	MinIterations int           `json:"min_iterations"` // before which nobody is done
	MaxIterations int           `json:"max_iterations"`
	Time          spec.Duration `json:"time,omitempty"`      // while somebody carries it on
	Tokens        int64         `json:"tokens,omitempty"`    // as the gateway counts them, or the agent
	USD           float64       `json:"usd,omitempty"`       // likewise
	Iteration     spec.Duration `json:"iteration,omitempty"` // for the agent, each time
	Idle          spec.Duration `json:"idle,omitempty"`      // of an iteration, with no sign of the agent
	Gate          spec.Duration `json:"gate"`                // for each command of Until
}

// Check refuses limits within which there would be no loop.
func (l Limits) Check() error {
	switch {
	case l.MaxIterations < 1 || l.MinIterations < 0 || l.MinIterations > l.MaxIterations:
		return spec.Errorf(spec.ErrUsage, "iterations from %d to %d make no loop", l.MinIterations, l.MaxIterations)
	case l.Time < 0 || l.Iteration < 0 || l.Idle < 0:
		return spec.Errorf(spec.ErrUsage, "a limit is negative")
	case l.Gate <= 0:
		return spec.Errorf(spec.ErrUsage, "%s is no time that a check could take", time.Duration(l.Gate))
	}
	return spec.Budget{Tokens: l.Tokens, USD: l.USD}.Check()
}

// Budget bounds what models may take for all of it.
func (p *Plan) Budget() spec.Budget { return spec.Budget{Tokens: p.Limits.Tokens, USD: p.Limits.USD} }

// Stall says how often in a row nothing may move. Zero is for ever.
type Stall struct {
	Unchanged int `json:"unchanged"`  // iterations that leave all files as they were
	SameRed   int `json:"same_red"`   // that leave the same gates red, with the same answers
	SameError int `json:"same_error"` // in which the agent fails in the same way
	// SameLimit is how often an iteration is begun because an allowance was used up, or a
	// provider overloaded, with nothing else in between.
	SameLimit int `json:"same_limit"`
	Questions int `json:"questions"` // iterations that end with a question to a person
}

// UsualStall is what experience with other loops suggests. An agent that does not say
// until when it has to wait is asked again for six hours: allowances are given for five.
var UsualStall = Stall{Unchanged: 3, SameRed: 5, SameError: 5, SameLimit: 72, Questions: 2}

// Check refuses what could not work.
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
			return fail("the promise %q is no plain line", w)
		}
	}
	if p.Promise == "" {
		return fail("the promise is empty")
	}
	for _, c := range p.Until {
		if strings.TrimSpace(c) == "" {
			return fail("a command of --until is empty")
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

// Parallel tells whether several work at the same time.
func (p *Plan) Parallel() bool { return p.Workers > 1 }

// TooMany says that so many cannot work at the same time; or too few.
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
			WithHint("have each take a task of the project: --tasks")
	case p.Resume:
		return spec.Errorf(spec.ErrUsage, "several workers begin each task with a fresh memory").
			WithHint("leave --parallel or --resume-session out")
	}
	return nil
}

// maxModel is how long the name of a model may be, in bytes.
const maxModel = 200

// checkModel refuses what an agent could take for something else than a model.
func checkModel(m string) error {
	if m == "" || len(m) > maxModel || strings.HasPrefix(m, "-") || strings.ContainsFunc(m, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return spec.Errorf(spec.ErrUsage, "%q is no name of a model", m)
	}
	return nil
}

// ModelOf is which model works in an iteration; empty if nobody says. Of several workers
// each counts its own: by those of all together one might have the same model each time.
func (p *Plan) ModelOf(iteration int) string {
	if len(p.Models) == 0 {
		return ""
	}
	return p.Models[(iteration-1)%len(p.Models)]
}

// AgentOf is who works in an iteration.
func (p *Plan) AgentOf(iteration int) string {
	if len(p.Agents) == 0 {
		return p.Agent
	}
	return p.Agents[(iteration-1)%len(p.Agents)]
}

// seatOf is who works in an iteration, if somebody has a place of his own.
func (p *Plan) seatOf(iteration int) (s Seat) {
	if len(p.Agents) > 0 {
		s.Agent = p.AgentOf(iteration)
	}
	return s
}

// workerSeat is where a worker works in one of its own iterations: in its own place, or in
// that which it has for an agent that takes turns with the first.
func (p *Plan) workerSeat(worker, turn int) Seat {
	s := Seat{Worker: worker}
	if a := p.AgentOf(turn); a != p.Agent {
		s.Agent = a
	}
	return s
}

// Others are the agents that take turns with Agent, each once.
func (p *Plan) Others() (list []string) {
	for _, a := range p.Agents {
		if a != p.Agent && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// Turn is who works in an iteration, with which model.
type Turn struct{ Agent, Model string }

// Rotate reads a rotation as ralph has it, "agent:model,agent:model".
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

// Rotate has agents and models take turns. The sandbox is the first agent's.
func (p *Plan) Rotate(turns []Turn) {
	p.Agent, p.Agents, p.Models = turns[0].Agent, nil, nil
	for _, t := range turns {
		p.Agents, p.Models = append(p.Agents, t.Agent), append(p.Models, t.Model)
	}
	if len(p.Others()) == 0 {
		p.Agents = nil
	}
}

// Name has agents be called by their names, whatever they were called: one that is called
// in two ways is one agent, with one place.
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

// markup is what may stand around a promise: what sets it off or ends a sentence, but no
// words, and nothing that quotes.
const markup = " \t\r*_`~.!"

// promised tells whether a message ends with a promise, in whatever case: that and nothing
// else but markup is on the last line that is more than markup, such as the end of a block of
// code. A prompt that is repeated within it promises nothing.
func promised(message, promise string) bool {
	if promise == "" {
		return false
	}
	message = strings.TrimRight(message, markup+"\n")
	last := message[strings.LastIndexByte(message, '\n')+1:]
	return strings.EqualFold(strings.TrimLeft(last, markup), "<promise>"+promise+"</promise>")
}

// left is what remains of a limit of time; 0 is no limit, and less is over.
func left(limit spec.Duration, used time.Duration) time.Duration {
	if limit == 0 {
		return 0
	}
	if rest := time.Duration(limit) - used; rest > 0 {
		return rest
	}
	return -1
}
