package cmdline

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// SandboxNames completes names of sandboxes that are not yet among the arguments.
func (a *App) SandboxNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names, err := a.Names()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
}

// TemplateNames completes the names of templates.
func (a *App) TemplateNames(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	e, err := a.Engine()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := e.Templates().Shelf().List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := []string{spec.TemplateHost}
	for _, t := range list {
		names = append(names, t.Name)
	}
	if images, err := e.Images().Shelf().List(); err == nil {
		for _, i := range images {
			if i.Name != "" {
				names = append(names, i.Title())
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// OneSandbox completes the name of the only argument.
func (a *App) OneSandbox(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.SandboxNames(cmd, args, word)
}

// Names returns the names of all sandboxes. A broken sandbox goes by the name of its directory,
// which may be any text, so names skips invalid names.
func (a *App) Names() ([]string, error) {
	e, err := a.Engine()
	if err != nil {
		return nil, err
	}
	list, err := e.Store.List()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, sb := range list {
		if spec.CheckName(sb.Name) == nil {
			names = append(names, sb.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// FileNames completes names of files.
func FileNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// OneOf returns a completion of fixed words.
func OneOf(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// Subcommands completes the name of a command below cmd.
func Subcommands(cmd *cobra.Command) (list []string) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	return list
}

// CompleteFlag sets the completion of a flag's value.
func CompleteFlag(c *cobra.Command, name string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(name, Typeable(complete)); err != nil {
		panic(err)
	}
}

// Typeable keeps the candidates that begin with the word and can be typed. Candidates from the disk
// may hold any text.
func Typeable(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) (left []string, how cobra.ShellCompDirective) {
		list, how := complete(cmd, args, word)
		for _, candidate := range list {
			value, text, described := strings.Cut(candidate, "\t")
			if !strings.HasPrefix(value, word) || term.Sanitize(value) != value {
				continue
			}
			if described {
				value = cobra.CompletionWithDesc(value, term.Sanitize(text))
			}
			left = append(left, value)
		}
		if len(left) == 0 {
			how &^= cobra.ShellCompDirectiveNoSpace // files that the shell proposes instead are whole words
		}
		return left, how
	}
}

// SecretNames completes the name of a secret.
func (a *App) SecretNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	e, err := a.Engine()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := e.Credentials().Values.Secrets()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name+"\t"+s.Service)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// AgentsWithLogin completes the names of agents whose description covers the login on the host.
func (a *App) AgentsWithLogin(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteAgents(nil, func(i agentprogram.Agent) bool { return i.Spec != nil && i.Spec.Login != nil })
}

// CompleteAgents completes names that are not yet among the arguments.
func (a *App) CompleteAgents(args []string, want func(agentprogram.Agent) bool) ([]string, cobra.ShellCompDirective) {
	e, err := a.Engine()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	infos, err := e.Programs().List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	named := map[string]bool{}
	for _, word := range args {
		name, _, _ := strings.Cut(word, "@")
		named[name] = true
	}
	var names []string
	for _, i := range infos {
		if !named[i.Name] && want(i) {
			title := ""
			if i.Spec != nil {
				title = "\t" + i.Spec.Title
			}
			names = append(names, i.Name+title)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// KnownAgents completes the names of agents, but not of runtimes.
func (a *App) KnownAgents(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.CompleteAgents(args, func(i agentprogram.Agent) bool { return i.Spec != nil && !i.Spec.Runtime })
}
