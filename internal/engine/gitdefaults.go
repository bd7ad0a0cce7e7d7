package engine

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"slices"

	"github.com/bothy-dev/bothy/internal/gitdefaults"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// askGit asks the host's git for the author of commits in the directory that a sandbox works on. An
// error does not prevent the start: git inside reports missing settings.
func (e *Engine) askGit(ctx context.Context, sb *spec.Sandbox) *gitdefaults.Person {
	if sb.Build != nil || len(sb.Workspaces) == 0 {
		return nil
	}
	home, err := store.Home()
	if err != nil {
		return nil
	}
	paths, err := e.Paths()
	var p *gitdefaults.Person
	if err == nil {
		p, err = gitdefaults.Ask(ctx, paths, home, sb.Workspaces[0].Source)
	}
	switch {
	case err == nil, errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), ctx.Err() != nil:
	default:
		e.say("git inside does not know who you are: git of this host does not tell (%v)", err)
	}
	return p
}

// tellGit passes the person on to a sandbox that starts.
func (e *Engine) tellGit(l *launch.Settings, p *gitdefaults.Person) {
	if p == nil {
		return
	}
	signed := signs(l.Loans)
	l.Git, l.GitIgnore = p.Config(hostroot.GitIgnorePath, signed), p.Ignore
	left := p.Left
	if signed {
		left = append(left, p.Signing.Left...)
	}
	for _, what := range left {
		e.say("git inside does not have %s", what)
	}
}

// signs reports whether a loan can sign commits.
func signs(loans []wire.Loan) bool {
	return slices.ContainsFunc(loans, func(l wire.Loan) bool { return l.Place.Kind == spec.PlaceSignature && len(l.Value) > 0 })
}
