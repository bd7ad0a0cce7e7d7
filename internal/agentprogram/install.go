package agentprogram

import (
	"context"
	"errors"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/helper"
	"github.com/bothy-dev/bothy/spec"
)

// Install makes sure that a program is installed, and reports its progress. If the exact
// version is installed, it starts no process and asks no registry. When ctx ends, the work stops;
// the next call resumes the download.
func (s *Programs) Install(ctx context.Context, r agent.Request, progress func(agent.Event)) (agent.Result, error) {
	if err := r.Check(); err != nil {
		return agent.Result{}, err
	}
	if there, ok := agent.Present(s.Store, r); ok {
		return agent.Result{Installation: there}, nil
	}
	if err := s.Images.Room.Check(); err != nil {
		return agent.Result{}, err
	}
	result, err := helper.Ask[agent.Event, agent.Result](ctx, agent.Argv0, agent.Order{State: s.Store.Path(), Request: r}, progress)
	if errors.Is(err, helper.ErrSilent) {
		err = &spec.Error{Op: "install " + r.Name + " " + r.Version, Err: err, Hint: "run it again: it goes on where it ended"}
	}
	return result, err
}
