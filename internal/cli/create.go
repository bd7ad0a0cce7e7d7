package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func newID() string { return store.NewID() }

func (a *app) createCommand() *cobra.Command {
	f := &createFlags{}
	c := &cobra.Command{
		Use:               "create [flags] AGENT [PATH[:ro]]...",
		Short:             "Create a sandbox without starting it",
		Long:              "Creates a sandbox. Without PATH it has no project of the host in it.",
		Args:              atLeast(1, "an agent, e.g. claude, or shell"),
		ValidArgsFunction: a.completeCreate,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := a.engine()
			if err != nil {
				return err
			}
			l, err := lodgerOf(e, args[0])
			if err != nil {
				return err
			}
			sb, err := a.makeSandbox(cmd, e, f, l, args[1:], nil)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(sb)
			}
			fmt.Fprintln(a.Out, sb.Name)
			if !f.quiet {
				a.warnShared(e, sb)
				a.Note("created; start it with: bothy run --name %s", sb.Name)
			}
			return nil
		},
	}
	f.add(a, c)
	c.Flags().Lookup("quiet").Usage = "print the name only"
	f.budget.add(c)
	completeFlag(c, "secret", a.secretNames)
	return a.JSONFlag(c)
}

// makeSandbox creates a sandbox from the flags and lends it secrets. It calls before, which may be
// nil, after all checks and before anything is made.
func (a *app) makeSandbox(cmd *cobra.Command, e *engine.Engine, f *createFlags, l *lodger, paths []string, before func(*spec.Sandbox) error) (*spec.Sandbox, error) {
	wanted, err := a.loans(e, f)
	if err != nil {
		return nil, err
	}
	server, err := a.modelServer(e, f, l.spec)
	if err != nil {
		return nil, err
	}
	sb, err := a.sandbox(cmd.Context(), e, f, l.name, paths)
	if err == nil {
		err = a.gitDirs(cmd, e, f, sb, false)
	}
	if err == nil {
		err = a.bounds(e, f, l)
	}
	if err == nil {
		err = l.visible(sb)
	}
	var mock *engine.Mock
	if err == nil {
		mock, err = f.mocked(e, l)
	}
	var config bool
	if err == nil {
		config, err = a.wantsConfig(cmd, f, l)
	}
	var version string
	if err == nil {
		version, err = f.wantsVersion(l)
	}
	if err == nil {
		sb.Program, err = a.house(cmd.Context(), e, l, sb, version)
	}
	if err != nil {
		return nil, err
	}
	rules, err := f.network.block()
	if err != nil {
		return nil, err
	}
	l.settle(sb, &rules, config, server)
	mock.Apply(sb)
	if err := engine.Serve(sb, l.spec, server, &rules); err != nil {
		return nil, err
	}
	if before != nil {
		err = before(sb)
	}
	if err == nil {
		err = e.Create(cmd.Context(), sb, engine.Rules(rules), engine.Script(mock), e.Making(sb))
	}
	if err != nil {
		return nil, err
	}
	a.adviseGit(cmd, f, sb)
	a.tellServer(cmd.Context(), l.spec, sb)
	a.warnRules(e, sb, slices.Concat(rules.Allow, rules.Deny))
	if err := a.lendAll(cmd, e, l, sb, wanted, true); err != nil {
		return nil, console.Join([]error{err, e.TakeBack(sb)})
	}
	return sb, e.Made(sb)
}
