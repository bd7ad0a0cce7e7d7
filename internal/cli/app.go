// Package cli is the command line: one file per command, from words to calls
// of the engine and from results to text. It decides nothing.
//
// What was asked for goes to standard output, everything else to standard
// error. Errors are lower-case clauses behind "bothy: error:", advice follows
// behind "bothy: hint:". Questions are asked only on a terminal.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// app is one invocation: its streams and what its global flags said.
type app struct {
	stdin          *os.File
	stdout, stderr *os.File
	json           bool
	config         config
	command        string // how the user calls us: "bothy" or "docker sandbox"
}

// Main runs a command line and returns its exit code.
func Main(args []string) int {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, command: "bothy"}
	args, done := a.asPlugin(args)
	if done {
		return spec.ExitOK
	}
	root := a.root()
	root.SetArgs(dockerFingers(args[1:]))
	err := root.ExecuteContext(context.Background())
	return a.report(err)
}

// root is the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           a.command,
		Short:         "A plain shelter for AI coding agents",
		Long:          "Bothy gives an agent, or any program, a whole machine of its own, and nothing else:\nits own kernel, its own file system, your project directory, no way out.",
		SilenceErrors: true, SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return spec.Errorf(spec.ErrUsage, "unknown command %q", args[0]).WithHint("%s --help lists the commands", a.command)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			a.config, err = loadConfig()
			return err
		},
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return spec.Errorf(spec.ErrUsage, "%w", err).WithHint("%s --help", cmd.CommandPath())
	})
	root.AddCommand(
		a.runCommand(), a.createCommand(), a.execCommand(), a.lsCommand(), a.inspectCommand(),
		a.stopCommand(), a.rmCommand(), a.resetCommand(), a.cpCommand(), a.logsCommand(),
		a.topCommand(), a.doctorCommand(), a.versionCommand(), a.completionCommand(),
	)
	root.SetHelpCommand(a.helpCommand())
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

// dockerFingers understands "run -it", which fingers type from habit although
// -t names a template here.
func dockerFingers(args []string) []string {
	if len(args) > 1 && args[0] == "run" {
		for i, arg := range args {
			if arg == "--" {
				break
			}
			if arg == "-it" || arg == "-ti" {
				args = slices.Clone(args)
				args[i] = "-i"
			}
		}
	}
	return args
}

// jsonFlag adds --json to a command that prints data.
func (a *app) jsonFlag(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

// report prints an error and gives the exit code.
func (a *app) report(err error) int {
	code := spec.ExitCode(err)
	var exited *spec.Exited
	if err == nil || errors.As(err, &exited) {
		return code
	}
	if a.json {
		_ = json.NewEncoder(a.stderr).Encode(map[string]any{"error": spec.ToWire(err)})
		return code
	}
	fmt.Fprintf(a.stderr, "bothy: error: %s\n", printable(err.Error()))
	if hint := spec.Hint(err); hint != "" {
		fmt.Fprintf(a.stderr, "bothy: hint: %s\n", printable(hint))
	}
	return code
}

// printable makes text with names and messages from inside safe to print.
func printable(s string) string {
	var b strings.Builder
	w := term.NewSanitizingWriter(&b)
	_, _ = w.Write([]byte(s))
	_ = w.Flush()
	return b.String()
}

// note tells something on standard error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "bothy: %s\n", fmt.Sprintf(format, args...))
}

// printJSON prints the answer as one indented document. Strings in it may come
// from inside: what JSON itself lets through and a terminal would obey is
// escaped too.
func (a *app) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", escapeControls(b))
	return err
}

// escapeControls writes DEL, C1 controls and the characters that change the
// direction of text as \u escapes. In JSON they occur in strings only.
func escapeControls(b []byte) []byte {
	var out []byte
	for _, r := range string(b) {
		switch {
		case r >= 0x7f && r <= 0x9f, r == 0x61c, r >= 0x200e && r <= 0x200f,
			r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			out = fmt.Appendf(out, "\\u%04x", r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// engine opens the state directory.
func (a *app) engine() (*engine.Engine, error) {
	dir, err := store.Dir()
	if err != nil {
		return nil, err
	}
	s, err := store.Open(dir)
	if err != nil {
		return nil, err
	}
	return &engine.Engine{
		Store: s, Version: version(), Defaults: a.config.limits(),
		Progress: func(s string) { a.note("%s", s) },
	}, nil
}

// rules are what workspaces are judged by.
func rules(e *engine.Engine, force bool) workspace.Rules {
	home, err := store.Home()
	if err != nil {
		home = ""
	}
	return workspace.Rules{Home: home, State: e.Store.Path(), Force: force}
}

// ask puts a yes-or-no question, on a terminal only; elsewhere the answer is
// yes, for nobody is there to be asked.
func (a *app) ask(format string, args ...any) bool {
	if !term.IsTerminal(a.stdin) || !term.IsTerminal(a.stderr) {
		return true
	}
	fmt.Fprintf(a.stderr, format+" [y/N] ", args...)
	var answer string
	if _, err := fmt.Fscanln(a.stdin, &answer); err != nil {
		return false
	}
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes"
}

// exactly, atLeast and atMost check the number of arguments and say what is
// missing.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return spec.Errorf(spec.ErrUsage, "%s needs %s", cmd.CommandPath(), what).WithHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return spec.Errorf(spec.ErrUsage, "%s needs %s", cmd.CommandPath(), what).WithHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}

// sandboxNames completes a sandbox's name.
func (a *app) sandboxNames(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	e, err := a.engine()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := e.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := make([]string, len(list))
	for i, info := range list {
		names[i] = info.Spec.Name
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
