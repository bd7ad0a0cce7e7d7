package provision

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// Wanted is the sandbox that the words of a run name.
type Wanted struct {
	Sandbox *spec.Sandbox // an existing one; nil: that of Agent in Paths
	Agent   string        // as the words have it; the shell if they name none
	Paths   []string      // the current directory if they name none
}

// UnknownName is the error for a word that names neither an agent nor a sandbox. It is of class
// [spec.ErrNotFound].
type UnknownName struct {
	Word     string
	NotAgent error // why it is not an agent
}

func (u UnknownName) Error() string { return fmt.Sprintf("no agent or sandbox named %q", u.Word) }

// Unwrap returns the class.
func (u UnknownName) Unwrap() error { return spec.ErrNotFound }

// Interpret tells which sandbox the words of a run name: an agent, a program by its path, or a sandbox, and then
// directories. Words that begin with a directory, and no words, mean the shell. name is the name that the
// sandbox is to have, or empty; without words, it may be that of an existing sandbox.
func Interpret(e *engine.Engine, name string, words []string) (Wanted, error) {
	w := Wanted{Agent: agent.Shell, Paths: words}
	if len(words) == 0 {
		w.Paths = []string{"."}
		if name == "" {
			return w, nil
		}
		if sb, err := e.Find(name); err == nil {
			return Wanted{Sandbox: sb}, nil
		}
		return w, nil
	}
	first, rest := words[0], words[1:]
	_, err := FindAgent(e, first)
	switch {
	case err == nil:
		w.Agent, w.Paths = first, rest
		if len(rest) == 0 {
			w.Paths = []string{"."}
		}
		return w, nil
	case errors.Is(err, spec.ErrConflict) || errors.Is(err, spec.ErrUsage):
		return Wanted{}, err
	case strings.ContainsAny(first[:min(1, len(first))], "./~"):
		if len(rest) == 0 {
			return w, nil
		}
		return w, checkPresent(first)
	case !errors.Is(err, spec.ErrNotFound):
		return Wanted{}, err
	}
	sb, notFound := e.Find(first)
	switch {
	case notFound != nil:
		return Wanted{}, UnknownName{first, err}
	case len(rest) > 0:
		return Wanted{}, spec.Errorf(spec.ErrUsage, "%s exists: its directories were fixed when it was created", first)
	}
	return Wanted{Sandbox: sb}, nil
}

// checkPresent refuses a word, the first of several paths, that is not an existing file or directory. A single
// missing path is taken for a directory to share.
func checkPresent(word string) error {
	_, err := os.Stat(strings.TrimSuffix(word, ":ro"))
	if !errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(word, "~") {
		return nil // the shell did not expand it
	}
	return spec.Errorf(spec.ErrNotFound, "%s is not there", word).
		WithHint("a directory that is to be shared is created first, with mkdir -p; a program is a file that may be executed")
}

// PlanRun decides what a request for a run means: to use the sandbox that is wanted, or to find or make the one of
// an agent in a directory. With Remove it is always a new one. See [Provisioner.Plan].
func (p *Provisioner) PlanRun(w Wanted, req spec.Request) (*Plan, error) {
	if err := checkRemove(w.Sandbox, &req); err != nil {
		return nil, err
	}
	if w.Sandbox != nil {
		return p.planExisting(w.Sandbox, req)
	}
	req.Agent, req.Workspaces = w.Agent, w.Paths
	return p.Plan(req, !req.Remove)
}

// checkRemove refuses to remove, after the run, a sandbox that existed before, or whose changes the user could not
// look at before the removal.
func checkRemove(existing *spec.Sandbox, req *spec.Request) error {
	const rm = spec.Option("rm")
	switch {
	case !req.Remove:
		return nil
	case existing != nil:
		return spec.Errorf(spec.ErrConflict, "%s would remove sandbox %s, which exists, with its home and all that was installed in it", rm, existing.Name).
			WithHint("leave %s out; for a fresh sandbox name an agent: bothy run --rm %s", rm, existing.Agent)
	case req.WorkspaceMode == spec.WorkspaceReview:
		return spec.Errorf(spec.ErrUsage, "%s would throw away what waits for a review", rm).
			WithHint("leave %s out, then: bothy diff, bothy apply, bothy rm", rm)
	case req.WorkspaceMode == spec.WorkspaceClone:
		return spec.Errorf(spec.ErrUsage, "%s would throw the clone away, with all commits in it", rm).
			WithHint("leave %s out, then: bothy fetch, bothy rm", rm)
	}
	return nil
}
