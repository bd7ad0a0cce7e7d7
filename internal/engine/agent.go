package engine

import (
	"context"
	"errors"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/helper"
	"github.com/bothy-dev/bothy/spec"
)

// InstallAgent makes sure that a program is installed, and reports its progress. If the exact
// version is installed, it starts no process and asks no registry. When ctx ends, the work stops;
// the next call resumes the download.
func (e *Engine) InstallAgent(ctx context.Context, r agent.Request, progress func(agent.Event)) (agent.Result, error) {
	if err := r.Check(); err != nil {
		return agent.Result{}, err
	}
	if there, ok := agent.Present(e.Store, r); ok {
		return agent.Result{Installation: there}, nil
	}
	if err := e.CheckRoom(); err != nil {
		return agent.Result{}, err
	}
	result, err := run[agent.Event, agent.Result](ctx, agent.Argv0, agent.Order{State: e.Store.Path(), Request: r}, progress)
	if errors.Is(err, helper.ErrSilent) {
		err = &spec.Error{Op: "install " + r.Name + " " + r.Version, Err: err, Hint: "run it again: it goes on where it ended"}
	}
	return result, err
}
