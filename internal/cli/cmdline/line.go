package cmdline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Annotations of commands and flags.
const (
	PassesOn = "bothy_passes_on" // of a command: which arguments are for a program inside
	emptyToo = "bothy_empty_too" // of a flag: its value may be empty
)

// Values of passesOn.
const (
	BehindDash  = "--"
	BehindFirst = "1"
)

// Execute runs the command that the words name.
func (a *App) Execute(ctx context.Context, root *cobra.Command, words []string) error {
	root.SetArgs(append([]string{}, words...)) // for nil cobra would use os.Args
	if err := root.ExecuteContext(ctx); err != nil {
		return err
	}
	return a.wrong
}

// HelpOf prints a command's help. Cobra also calls it for a group with an unknown command. That is
// an error, with or without --help.
func (a *App) HelpOf(help func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, words []string) {
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
			a.wrong = a.UnknownCommand(cmd, args[0])
			return
		}
		help(cmd, words)
	}
}

// UnknownCommand returns the error for a word that is not a command of a group. It suggests similar
// commands.
func (a *App) UnknownCommand(group *cobra.Command, word string) error {
	err := spec.Errorf(spec.ErrUsage, "unknown command %q", word)
	if group.HasParent() {
		err = spec.Errorf(spec.ErrUsage, "%s has no command %q", group.CommandPath(), word)
	}
	group.SuggestionsMinimumDistance = allowedTypos(word)
	if names := group.SuggestionsFor(word); len(names) > 0 {
		return err.WithHint("did you mean %s %s?", group.CommandPath(), strings.Join(names, " or "))
	}
	if group.HasParent() {
		return err.WithHint("%s --help lists the commands", group.CommandPath())
	}
	switch agents := AgentsLike(word); {
	case slices.Contains(agents, word):
		return err.WithHint("%s is an agent: %s run %s", word, a.Command, word)
	case len(agents) > 0:
		return err.WithHint("did you mean %s run %s?", a.Command, strings.Join(agents, " or "))
	}
	return err.WithHint("%s --help lists the commands", group.CommandPath())
}

// AgentsLike returns the agents with names similar to a word.
func AgentsLike(word string) []string {
	return nearest(word, values(AgentNames(provision.Agents())))
}

// BadFlag returns the error for bad flags on a line.
func (a *App) BadFlag(cmd *cobra.Command, err error) error {
	args := cmd.Flags().Args()
	if cmd.HasSubCommands() && len(args) > 0 {
		return a.UnknownCommand(cmd, args[0])
	}
	bad := spec.Errorf(spec.ErrUsage, "%w", err)
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return bad.WithHint("%s --help", cmd.CommandPath())
	}
	var like []string
	if unknown.GetSpecifiedShortnames() == "" {
		like = nearest(unknown.GetSpecifiedName(), flagNames(cmd))
	}
	meant := "did you mean --" + strings.Join(like, " or --") + "?"
	switch passes := cmd.Annotations[PassesOn] == BehindDash && len(args) > 0; {
	case passes && len(like) > 0:
		return bad.WithHint("%s; or %s", behind(cmd, args, unknown), meant)
	case passes:
		return bad.WithHint("%s", behind(cmd, args, unknown))
	case len(like) > 0:
		return bad.WithHint("%s", meant)
	}
	return bad.WithHint("%s --help lists the flags", cmd.CommandPath())
}

// behind says where to put the flags of a program inside.
func behind(cmd *cobra.Command, args []string, flag *pflag.NotExistError) string {
	n := len(args)
	if i := CommandAt(args); i > 0 {
		n = i
	}
	line := ShellLine(slices.Concat(args[:n], []string{"--"}, args[n:]))
	return fmt.Sprintf("flags of the program inside follow --: %s %s %s", cmd.CommandPath(), line, dashed(flag))
}

// CommandAt returns the index of the first argument of run that may be a command instead of a path,
// or 0. The first two arguments are an agent and its directory.
func CommandAt(args []string) int {
	for i, arg := range args {
		if _, err := os.Stat(arg); i > 1 && errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(arg, "/~:") {
			return i
		}
	}
	return 0
}

// dashed formats a flag as the user wrote it.
func dashed(f *pflag.NotExistError) string {
	if shorthands := f.GetSpecifiedShortnames(); shorthands != "" {
		return "-" + shorthands
	}
	return "--" + f.GetSpecifiedName()
}

// ShellLine quotes words for a shell.
func ShellLine(list []string) string {
	quoted := make([]string, len(list))
	for i, word := range list {
		quoted[i] = workspace.ShellWord(word)
	}
	return strings.Join(quoted, " ")
}

// values returns candidates without their descriptions.
func values(candidates []string) (list []string) {
	for _, c := range candidates {
		word, _, _ := strings.Cut(c, "\t")
		list = append(list, word)
	}
	return list
}

// flagNames returns the long names of a command's flags.
func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// nearest returns the names similar to a word, by cobra's measure.
func nearest(word string, names []string) []string {
	c := &cobra.Command{SuggestionsMinimumDistance: allowedTypos(word)}
	for _, name := range names {
		c.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return c.SuggestionsFor(word)
}

// allowedTypos returns how many letters of a word may be wrong. In a short word, two would be most of it.
func allowedTypos(word string) int {
	if len(word) < 3 {
		return 1
	}
	return 2
}

// MayBeEmpty marks flags for which an empty value has a meaning. All other flags refuse one.
func MayBeEmpty(c *cobra.Command, flags ...string) {
	for _, name := range flags {
		if err := c.Flags().SetAnnotation(name, emptyToo, nil); err != nil {
			panic(err)
		}
	}
}

// RefuseEmpty refuses empty flags and arguments, which usually come from an unset variable of a
// script. Treated as left out, they would make a command do something else, and often more.
func RefuseEmpty(cmd *cobra.Command, args []string) (err error) {
	hint := cmd.CommandPath() + " --help"
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, may := f.Annotations[emptyToo]; err == nil && !may && hasEmpty(f.Value) {
			err = spec.Errorf(spec.ErrUsage, "--%s is empty", f.Name).WithHint("%s", hint)
		}
	})
	if err != nil {
		return err
	}
	if i := slices.Index(ownArguments(cmd, args), ""); i >= 0 {
		return spec.Errorf(spec.ErrUsage, "argument %d is empty", i+1).WithHint("%s", hint)
	}
	return nil
}

// ownArguments returns the arguments that are not for a program inside.
func ownArguments(cmd *cobra.Command, args []string) []string {
	switch passes, dash := cmd.Annotations[PassesOn], cmd.ArgsLenAtDash(); {
	case passes == BehindFirst && len(args) > 1:
		return args[:1]
	case passes == BehindDash && dash >= 0:
		return args[:dash]
	}
	return args
}

// hasEmpty reports whether a flag's value is empty, or one of its values.
func hasEmpty(v pflag.Value) bool {
	if list, ok := v.(pflag.SliceValue); ok {
		return slices.Contains(list.GetSlice(), "")
	}
	return v.Type() == "string" && v.String() == ""
}
