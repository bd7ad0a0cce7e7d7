package loopplan

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/strictyaml"
	"github.com/bothy-dev/bothy/spec"
)

// Gates is the content of a file of gates.
type Gates struct {
	Protect []string    `json:"protect,omitempty"` // as in Plan
	Gates   []Criterion `json:"gates"`
}

// Criterion is a gate of a file. It has exactly one of Command, File and Reviewer.
type Criterion struct {
	ID      string `json:"id"`
	Command string `json:"command,omitempty"` // for /bin/sh; it exits with 0 when the work is done
	// File is the path of a document in the working directory. It must pass Validate; without Validate
	// it must exist and not be empty.
	File     string       `json:"file,omitempty"`
	Validate *gate.Checks `json:"validate,omitempty"`
	Reviewer *Reviewer    `json:"reviewer,omitempty"`
	// Timeout limits the time of the judgement; nil is Limits.Gate, and for a reviewer usualReview.
	Timeout *spec.Duration `json:"timeout,omitempty"`
}

// Reviewer is an agent that judges. It is asked when all other gates are green.
type Reviewer struct {
	Agent  string `json:"agent"`
	Model  string `json:"model,omitempty"` // empty: the agent's own choice
	Prompt string `json:"prompt"`          // the instructions for its judgement
}

// Bounds of a file of gates.
const (
	// MaxGates is the size of a file, in bytes.
	MaxGates     = 256 << 10
	maxCriteria  = 50
	maxCriterion = 2 << 10  // bytes of a criterion's text for the agent
	maxReviewing = 32 << 10 // bytes of a reviewer's instructions
	usualReview  = 30 * time.Minute
)

// ReadGates reads a file of gates. An unknown field is an error.
func ReadGates(data []byte) (*Gates, error) {
	if len(data) > MaxGates {
		return nil, fmt.Errorf("it is larger than %d KiB", MaxGates>>10)
	}
	g := &Gates{}
	if err := strictyaml.Decode(data, g); err != nil {
		return nil, err
	}
	if len(g.Gates) == 0 {
		return nil, errors.New("gates: there are none")
	}
	return g, checkCriteria(g.Gates)
}

func checkCriteria(list []Criterion) error {
	if len(list) > maxCriteria {
		return fmt.Errorf("gates: there are more than %d", maxCriteria)
	}
	ids := map[string]bool{}
	for i := range list {
		c := &list[i]
		err := c.checkGate()
		if err == nil && ids[c.ID] {
			err = errors.New("the id is used twice")
		}
		if err != nil {
			return fmt.Errorf("gate %s: %w", cmp.Or(c.ID, fmt.Sprint(i+1)), err)
		}
		ids[c.ID] = true
	}
	return nil
}

func (c *Criterion) checkGate() error {
	kinds := 0
	for _, has := range []bool{c.Command != "", c.File != "", c.Reviewer != nil} {
		if has {
			kinds++
		}
	}
	switch {
	case !strictyaml.IsName(c.ID):
		return fmt.Errorf("id: %q is none: a letter, then letters, digits, - and _", c.ID)
	case kinds != 1:
		return errors.New("one of command, file and reviewer is wanted")
	case c.Validate != nil && c.File == "":
		return errors.New("validate is for a file")
	case c.Timeout != nil && *c.Timeout <= 0:
		return fmt.Errorf("timeout: %s is not a positive time: leave it out for the default", time.Duration(*c.Timeout))
	case c.File != "":
		return c.checkFile()
	case c.Reviewer != nil:
		return c.Reviewer.checkReviewer()
	case strings.TrimSpace(c.Command) == "" || strings.ContainsRune(c.Command, 0):
		return errors.New("command: it is empty, or has a zero byte")
	}
	return nil
}

func (c *Criterion) checkFile() error {
	if c.File = path.Clean(c.File); !filepath.IsLocal(c.File) || c.File == "." || strings.ContainsRune(c.File, 0) {
		return fmt.Errorf("file: %q is not a path in the working directory", c.File)
	}
	if c.Validate == nil {
		return nil
	}
	if err := c.Validate.Valid(); err != nil {
		return fmt.Errorf("validate: %w", err)
	}
	return nil
}

func (r *Reviewer) checkReviewer() error {
	switch {
	case r.Agent == "":
		return errors.New("reviewer: agent is missing")
	case strings.TrimSpace(r.Prompt) == "":
		return errors.New("reviewer: the prompt is missing: write how it is to judge")
	case len(r.Prompt) > maxReviewing || strings.ContainsRune(r.Prompt, 0):
		return fmt.Errorf("reviewer: the prompt has more than %d KiB, or a zero byte", maxReviewing>>10)
	case r.Model == "":
		return nil
	}
	return checkModel(r.Model)
}

// Checks returns the requirements for the criterion's document.
func (c *Criterion) Checks() *gate.Checks {
	if c.Validate == nil {
		return &gate.Checks{}
	}
	return c.Validate
}

// describe describes the criterion to the agent. It leaves out a reviewer's instructions: the agent
// would work for them instead of the task.
func (c *Criterion) describe() string {
	switch {
	case c.Command != "":
		return c.Command
	case c.Reviewer != nil:
		return "a reviewer reads the work when all else agrees and you have said that it is done"
	}
	text := "the file " + c.File
	if list := c.Checks().Describe(); len(list) > 0 {
		text += ": " + strings.Join(list, "; ")
	}
	return strings.TrimSuffix(run.Beginning(text, maxCriterion), "\n")
}

// JudgeTime returns the time limit for judging a gate.
func (p *Plan) JudgeTime(c *Criterion) time.Duration {
	switch {
	case c.Timeout != nil:
		return time.Duration(*c.Timeout)
	case c.Reviewer != nil:
		return usualReview
	}
	return time.Duration(p.Limits.Gate)
}

// Criteria returns the gates of a file that are asked after every iteration, each with its time limit.
func (p *Plan) Criteria() (list []Criterion) {
	for _, c := range p.Gates {
		if c.Reviewer == nil {
			limit := spec.Duration(p.JudgeTime(&c))
			c.Timeout = &limit
			list = append(list, c)
		}
	}
	return list
}

// Reviewers returns the reviewers to ask when all other gates are green, in their order.
func (p *Plan) Reviewers() []Criterion {
	return slices.DeleteFunc(slices.Clone(p.Gates), func(c Criterion) bool { return c.Reviewer == nil })
}

// Reviewer names the agent of a gate and its model, for people.
func (p *Plan) Reviewer(id string) string {
	for _, c := range p.Reviewers() {
		if c.ID == id {
			return strings.TrimSuffix(c.Reviewer.Agent+" ("+c.Reviewer.Model+")", " ()")
		}
	}
	return ""
}

// checkGates checks that at least one gate exists that the agent cannot talk into agreeing.
func (p *Plan) checkGates() error {
	if err := checkCriteria(p.Gates); err != nil {
		return &spec.Error{Class: spec.ErrUsage, Err: err}
	}
	if len(p.Until)+len(p.Criteria()) > 0 {
		return nil
	}
	if len(p.Gates) > 0 {
		return spec.Errorf(spec.ErrUsage, "only a reviewer decides when the work is done, and files that it reads may mislead it").
			WithHint("give a command or a document that decides, too; %s true believes the reviewer and the agent", spec.Option("until"))
	}
	return spec.Errorf(spec.ErrUsage, "nothing says when the work is done").
		WithHint("give a command that ends with 0 then: %s 'make test'; %s true believes an agent that has changed something; %s FILE has documents, too", spec.Option("until"), spec.Option("until"), spec.Option("gates"))
}
