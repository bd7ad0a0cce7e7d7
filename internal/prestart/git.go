package prestart

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"slices"

	"github.com/bothy-dev/bothy/internal/gitdefaults"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// AskGit asks the host's git for the author of commits in the directory that a sandbox works on. An
// error does not prevent the start: git inside reports missing settings.
func (p Preparation) AskGit(ctx context.Context, sb *spec.Sandbox) *gitdefaults.Person {
	if sb.Build != nil || len(sb.Workspaces) == 0 {
		return nil
	}
	home, err := store.Home()
	if err != nil {
		return nil
	}
	paths, err := hostpath.Load(p.Keepers.Store)
	var who *gitdefaults.Person
	if err == nil {
		who, err = gitdefaults.Ask(ctx, paths, home, sb.Workspaces[0].Source)
	}
	switch {
	case err == nil, errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), ctx.Err() != nil:
	default:
		p.Keepers.Say("git inside does not know who you are: git of this host does not tell (%v)", err)
	}
	return who
}

// AddGit passes the person on to a sandbox that starts.
func (p Preparation) AddGit(l *launch.Settings, who *gitdefaults.Person) {
	if who == nil {
		return
	}
	signed := signsCommits(l.Loans)
	l.Git, l.GitIgnore = who.Config(hostroot.GitIgnorePath, signed), who.Ignore
	left := who.Left
	if signed {
		left = append(left, who.Signing.Left...)
	}
	for _, what := range left {
		p.Keepers.Say("git inside does not have %s", what)
	}
}

// signsCommits reports whether a loan can sign commits.
func signsCommits(loans []wire.Loan) bool {
	return slices.ContainsFunc(loans, func(l wire.Loan) bool { return l.Place.Kind == spec.PlaceSignature && len(l.Value) > 0 })
}
