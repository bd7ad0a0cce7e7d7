package command

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/racetest"
)

// called is what the last RunE of a tree was called with.
type called struct {
	path string
	args []string
	dash int
	ctx  context.Context
}

// tree is a command line with groups, aliases, flags of every kind and a
// command whose flags stand first.
func tree() (root *Command, last *called, printed *strings.Builder) {
	last, printed = &called{}, &strings.Builder{}
	run := func(cmd *Command, args []string) error {
		*last = called{cmd.CommandPath(), args, cmd.ArgsLenAtDash(), cmd.Context()}
		return nil
	}
	root = &Command{Use: "the tool", Short: "A tool", Out: printed}
	box := &Command{
		Use: "box [flags] NAME COMMAND...", Short: "Run in a box", Example: "  the tool box a b",
		FlagsFirst: true, RunE: run,
		Complete: func(_ *Command, args []string, _ string) ([]string, Directive) {
			if len(args) > 0 {
				return nil, Files
			}
			return []string{"alpha:", "beta:"}, NoSpace
		},
	}
	box.Flags().BoolP("interactive", "i", false, "connect input")
	WordsVarP(box.Flags(), new([]string), "env", "e", "set a variable")
	box.Flags().String("kind", "", "of the box")
	box.CompleteFlag("kind", Words("small", "large"))
	list := &Command{Use: "list", Aliases: []string{"ls"}, Short: "List things", Long: "Lists things.\nAll of them.\n", RunE: run}
	list.Flags().BoolP("quiet", "q", false, "names only")
	policy := &Command{Use: "policy", Short: "Rules"}
	policy.AddCommand(
		&Command{Use: "ls", Short: "List rules", RunE: run},
		&Command{Use: "set RULE", Short: "Set a rule", RunE: run, ValidArgs: []string{"allow\tlet through", "deny", "al\x1b[2Jlow"}},
	)
	secret := &Command{Use: "secret", Hidden: true, RunE: run}
	secret.Flags().String("note", "", "what it is for")
	secret.MayBeEmpty("note")
	secret.PassesOn = true
	root.AddCommand(box, list, policy, secret)
	return root, last, printed
}

// wordsOf splits a line at spaces; ” is an empty word.
func wordsOf(line string) []string {
	list := strings.Fields(line)
	for i, w := range list {
		if w == "''" {
			list[i] = ""
		}
	}
	return list
}

func TestExecute(t *testing.T) {
	tests := []struct{ line, path, args string }{
		{"list", "the tool list", ""},
		{"ls a b", "the tool list", "a b"},
		{"ls a -q b", "the tool list", "a b"},
		{"ls a -- -q b", "the tool list", "a -q b"},
		{"-q=true ls", "the tool list", ""}, // a flag whose value is not the next word
		{"box -i a sh -c x", "the tool box", "a sh -c x"},
		{"-ix box a", "", ""},
		{"box -e A=1 a -i", "the tool box", "a -i"},
		{"box a -- b", "the tool box", "a -- b"},
		{"policy ls", "the tool policy ls", ""},
		{"policy set ls", "the tool policy set", "ls"},
		{"policy set policy", "the tool policy set", "policy"},
		{"secret", "the tool secret", ""},
		{"secret --note= a", "the tool secret", "a"},    // which may be empty
		{"secret a -- '' b", "the tool secret", "a  b"}, // these are for somebody else
		{"box a '' b", "the tool box", "a  b"},
	}
	for _, tt := range tests {
		root, last, _ := tree()
		ctx := context.WithValue(t.Context(), tt, 1)
		err := root.Execute(ctx, wordsOf(tt.line))
		if last.path != tt.path || strings.Join(last.args, " ") != tt.args || (err == nil) != (tt.path != "") {
			t.Errorf("%q calls %q with %q: %v", tt.line, last.path, last.args, err)
		}
		if err == nil && last.ctx != ctx {
			t.Errorf("%q: the context is lost", tt.line)
		}
	}
	root, last, _ := tree()
	if err := root.Execute(t.Context(), []string{"list", "a", "--", "b"}); err != nil || last.dash != 1 {
		t.Errorf("1 argument before the dash, not %d: %v", last.dash, err)
	}
}

func TestErrors(t *testing.T) {
	for line, want := range map[string]string{
		"ls ''":           "the tool list: argument 1 is empty",
		"ls a '' -q":      "the tool list: argument 2 is empty",
		"ls a -- ''":      "the tool list: argument 2 is empty",
		"secret '' -- a":  "the tool secret: argument 1 is empty",
		"box ''":          "the tool box: argument 1 is empty",
		"policy set ''":   "the tool policy set: argument 1 is empty",
		"no":              `the tool: unknown command "no"`,
		"policy no":       `the tool policy: unknown command "no"`,
		"policy -- ls":    `the tool policy: unknown command "ls"`,
		"ls --no":         "the tool list: unknown flag: --no",
		"no --no":         "the tool: unknown flag: --no",
		"-q ls":           "the tool: unknown shorthand flag: 'q' in -q",
		"box --kind":      "the tool box: flag needs an argument: --kind",
		"box --kind= a":   "the tool box: --kind is empty",
		"box -e a --env=": "the tool box: --env is empty",
		"ls --quiet=well": `the tool list: invalid argument "well" for "-q, --quiet" flag: strconv.ParseBool: parsing "well": invalid syntax`,
	} {
		root, last, printed := tree()
		root.UsageError = func(cmd *Command, err error) error { return errors.New(cmd.CommandPath() + ": " + err.Error()) }
		err := root.Execute(t.Context(), wordsOf(line))
		if err == nil || err.Error() != want || last.path != "" || printed.Len() > 0 {
			t.Errorf("%q: %v; called %q, printed %q", line, err, last.path, printed)
		}
	}
}

// What the root asks for before a command runs is asked once the words are
// found right, and not for help.
func TestOrder(t *testing.T) {
	no := errors.New("no")
	for line, want := range map[string]string{
		"list": "args before", "list --bad": "", "list -h": "", "policy": "", "": "", CompleteName + " l": "",
	} {
		root, last, _ := tree()
		var steps []string
		root.PersistentPreRunE = func(*Command, []string) error { steps = append(steps, "before"); return no }
		cmd, _ := root.Find([]string{"list"})
		cmd.Args = func(*Command, []string) error { steps = append(steps, "args"); return nil }
		err := root.Execute(t.Context(), strings.Fields(line))
		if strings.Join(steps, " ") != want || errors.Is(err, no) != (want != "") || last.path != "" {
			t.Errorf("%q: %q, %v, called %q", line, steps, err, last.path)
		}
	}
}

func TestHelp(t *testing.T) {
	tests := map[string]string{
		"": `A tool

Usage:
  the tool [command]

Available Commands:
  box         Run in a box
  list        List things
  policy      Rules

Flags:
  -h, --help   help for the tool

Use "the tool [command] --help" for more information about a command.
`,
		"policy": `Rules

Usage:
  the tool policy [command]

Available Commands:
  ls          List rules
  set         Set a rule

Flags:
  -h, --help   help for policy

Use "the tool policy [command] --help" for more information about a command.
`,
		"policy set -h": `Set a rule

Usage:
  the tool policy set RULE [flags]

Flags:
  -h, --help   help for set
`,
		"ls x --help": `Lists things.
All of them.

Usage:
  the tool list [flags]

Aliases:
  list, ls

Flags:
  -h, --help    help for list
  -q, --quiet   names only
`,
		"box -h": `Run in a box

Usage:
  the tool box [flags] NAME COMMAND...

Examples:
  the tool box a b

Flags:
  -e, --env stringArray   set a variable
  -h, --help              help for box
  -i, --interactive       connect input
      --kind string       of the box
`,
	}
	for line, want := range tests {
		root, last, printed := tree()
		if err := root.Execute(t.Context(), strings.Fields(line)); err != nil || printed.String() != want || last.path != "" {
			t.Errorf("%q prints\n%s\n%v", line, printed, err)
		}
	}
	root, last, _ := tree()
	if err := root.Execute(t.Context(), []string{"box", "a", "-h"}); err != nil || !slices.Equal(last.args, []string{"a", "-h"}) {
		t.Errorf("-h behind the first argument belongs to the command: %q, %v", last.args, err)
	}
}

func TestComplete(t *testing.T) {
	racetest.Skip(t)
	const flags = "--env\tset a variable --help\thelp for box --interactive\tconnect input --kind\tof the box :4"
	tests := []struct{ line, want string }{
		{"|", "box\tRun in a box list\tList things policy\tRules :4"},
		{"|l", "list\tList things :4"},
		{"|secr", ":4"},
		{"|no", ":4"},
		{"no|", ":4"},
		{"policy|", "ls\tList rules set\tSet a rule :4"},
		{"policy|s", "set\tSet a rule :4"},
		{"policy set|", "allow\tlet through deny :4"}, // not what would move the cursor
		{"policy set|d", "deny :4"},
		{"policy set deny|", ":4"},
		{"policy ls|", ":4"},
		{"ls|-", "--help\thelp for list --quiet\tnames only :4"},
		{"ls -q|--", "--help\thelp for list :4"},
		{"ls --|-", ":4"},
		{"ls --no|", ":1"},
		{"box|", "alpha: beta: :2"},
		{"box|al", "alpha: :2"},
		{"box|x", ":0"},
		{"box -i alpha:|x", ":0"},
		{"box|-", flags},
		{"box -e A=1|-", flags},
		{"box alpha:|-", ":0"}, // no longer ours
		{"box --kind|", "small large :4"},
		{"box --kind|s", "small :4"},
		{"box|--kind=l", "large :4"},
		{"box -ie|", ":4"},
		{"box|--env=", ":4"},
		{"box|--no=", ":4"},
		{"box --kind small|", "alpha: beta: :2"},
	}
	for _, tt := range tests {
		before, word, _ := strings.Cut(tt.line, "|")
		root, last, printed := tree()
		err := root.Execute(t.Context(), slices.Concat([]string{CompleteName}, strings.Fields(before), []string{word}))
		got := strings.ReplaceAll(strings.TrimSuffix(printed.String(), "\n"), "\n", " ")
		if err != nil || got != tt.want || last.path != "" {
			t.Errorf("%q gives %q, not %q: %v", tt.line, got, tt.want, err)
		}
	}
	root, _, printed := tree()
	if err := root.Execute(t.Context(), []string{CompleteName}); err != nil || !strings.HasPrefix(printed.String(), "box\t") {
		t.Errorf("without a word: %q, %v", printed, err)
	}
}

// A candidate comes from the disk: it is one line that can be typed, or none.
func TestCandidates(t *testing.T) {
	out := &strings.Builder{}
	root := &Command{Use: "tool", Out: out, ValidArgs: []string{
		"fine\twith \x1b[31mcolour\n:0", "two\nlines", "bell\a", "esc\x1b]0;x\a", "del\x7f", "c1\u009b2J", "bidi\u202e", "not-utf8\xff", ":4", "naïve", "a b",
	}}
	if err := root.Execute(t.Context(), []string{CompleteName, ""}); err != nil {
		t.Fatal(err)
	}
	if want := "fine\twith colour\\n:0\n:4\nnaïve\na b\n:4\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}
