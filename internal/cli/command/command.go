// Package command is a tree of commands over pflag. It finds the command that a
// line of words names, parses its flags, checks its arguments and runs it; it
// writes help, and completes words for a shell.
package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Command is one command, or a group of commands, or both.
type Command struct {
	Use     string // its name, and behind it how it is called; of the root, its name only
	Aliases []string
	Short   string // one line, for the list of commands
	Long    string // for its help; Short if empty
	Example string // lines indented by two
	Hidden  bool   // not listed, and not completed

	// FlagsFirst ends the flags at the first argument. Elsewhere they may stand
	// among the arguments, up to "--".
	FlagsFirst bool

	// PassesOn says that arguments behind "--" are for somebody else, and may be empty, as
	// those behind the first may with FlagsFirst.
	PassesOn bool

	// Args judges the arguments. Without it a group takes none but the names of
	// its commands, and any other command takes all.
	Args func(cmd *Command, args []string) error

	// RunE does the work. A group without it shows its help.
	RunE func(cmd *Command, args []string) error

	// ValidArgs are the words that the first argument may be, for completion.
	// Complete, if there is one, completes every argument.
	ValidArgs []string
	Complete  Completer

	// What follows is asked of the root. Out is where help and candidates are
	// written. PersistentPreRunE runs before the RunE of any command.
	// UsageError gives what is wrong with a line of words its final form.
	Out               io.Writer
	PersistentPreRunE func(cmd *Command, args []string) error
	UsageError        func(cmd *Command, err error) error

	parent   *Command
	commands []*Command
	flags    *pflag.FlagSet
	values   map[string]Completer // of flags, by their names
	empty    []string             // flags whose value may be empty
	ctx      context.Context      // the root's
}

// AddCommand puts commands below this one.
func (c *Command) AddCommand(commands ...*Command) {
	for _, sub := range commands {
		sub.parent = c
	}
	c.commands = append(c.commands, commands...)
}

// Flags are the command's own flags.
func (c *Command) Flags() *pflag.FlagSet {
	if c.flags == nil {
		c.flags = pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
		c.flags.SetOutput(io.Discard) // errors are returned
		c.flags.SetInterspersed(!c.FlagsFirst)
	}
	return c.flags
}

// allFlags are the command's own flags and -h. It is asked for once the tree
// stands: the root's name is more than one word.
func (c *Command) allFlags() *pflag.FlagSet {
	flags := c.Flags()
	if flags.Lookup("help") == nil {
		flags.BoolP("help", "h", false, "help for "+c.Name())
	}
	return flags
}

// Given are the flags that the words named, in the order of their names, and what they
// said.
func (c *Command) Given() (flags []Flag) {
	c.Flags().Visit(func(f *pflag.Flag) { flags = append(flags, Flag{f.Name, f.Value.String()}) })
	return flags
}

// IsSwitch tells whether a flag is one that is there or not.
func (c *Command) IsSwitch(name string) bool {
	f := c.Flags().Lookup(name)
	return f != nil && f.Value.Type() == "bool"
}

// Flag is one that was given.
type Flag struct{ Name, Value string }

// ArgsLenAtDash is the number of arguments before "--", -1 if it was not there.
func (c *Command) ArgsLenAtDash() int { return c.Flags().ArgsLenAtDash() }

// Name is the command's own name: the first word of Use, all of the root's.
func (c *Command) Name() string {
	if c.parent == nil {
		return c.Use
	}
	name, _, _ := strings.Cut(c.Use, " ")
	return name
}

// CommandPath is the name with those of all commands above.
func (c *Command) CommandPath() string {
	if c.parent == nil {
		return c.Use
	}
	return c.parent.CommandPath() + " " + c.Name()
}

// UseLine is one line on how the command is called.
func (c *Command) UseLine() string {
	line := c.Use
	if c.parent != nil {
		line = c.parent.CommandPath() + " " + line
	}
	if !strings.Contains(line, "[flags]") {
		line += " [flags]"
	}
	return line
}

// Root is the command above all.
func (c *Command) Root() *Command {
	for c.parent != nil {
		c = c.parent
	}
	return c
}

// Context is that of the call.
func (c *Command) Context() context.Context { return c.Root().ctx }

// Execute runs the command that the words name. It is called on the root.
func (c *Command) Execute(ctx context.Context, words []string) error {
	c.ctx = ctx
	if len(words) > 0 && words[0] == CompleteName {
		return c.complete(words[1:])
	}
	cmd, rest := c.Find(words)
	return cmd.execute(rest)
}

func (c *Command) execute(words []string) error {
	root, flags := c.Root(), c.allFlags()
	if err := flags.Parse(words); err != nil {
		return c.usageError(err)
	}
	if help, err := flags.GetBool("help"); help || err != nil {
		return c.Help()
	}
	args := flags.Args()
	if err := c.checkEmpty(); err != nil {
		return err
	}
	if err := c.checkArgs(args); err != nil {
		return err
	}
	if err := c.checkEmptyArgs(args); err != nil {
		return err
	}
	if c.RunE == nil {
		return c.Help()
	}
	if root.PersistentPreRunE != nil {
		if err := root.PersistentPreRunE(c, args); err != nil {
			return err
		}
	}
	return c.RunE(c, args)
}

// MayBeEmpty says of flags that an empty value has a meaning of its own. Any other
// flag is refused with one.
func (c *Command) MayBeEmpty(flags ...string) { c.empty = append(c.empty, flags...) }

// checkEmpty refuses flags that were given without a value in them: a variable of a
// script that is not set, as a rule. Taken for flags that were left out they would have
// a command do something else, and often more.
func (c *Command) checkEmpty() (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && hasEmpty(f.Value) && !slices.Contains(c.empty, f.Name) {
			err = c.usageError(fmt.Errorf("--%s is empty", f.Name))
		}
	})
	return err
}

// checkEmptyArgs refuses arguments with nothing in them likewise: an empty name is none,
// and must not mean what is meant where none is given.
func (c *Command) checkEmptyArgs(args []string) error {
	switch dash := c.ArgsLenAtDash(); {
	case c.FlagsFirst && len(args) > 1:
		args = args[:1]
	case c.PassesOn && dash >= 0:
		args = args[:dash]
	}
	if i := slices.Index(args, ""); i >= 0 {
		return c.usageError(fmt.Errorf("argument %d is empty", i+1))
	}
	return nil
}

// hasEmpty tells whether a flag's value is no text, or one of its words is none.
func hasEmpty(v pflag.Value) bool {
	if list, ok := v.(*words); ok {
		return slices.Contains(*list, "")
	}
	return v.Type() == "string" && v.String() == ""
}

func (c *Command) checkArgs(args []string) error {
	switch {
	case c.Args != nil:
		return c.Args(c, args)
	case len(c.commands) > 0 && len(args) > 0:
		return c.usageError(fmt.Errorf("unknown command %q", args[0]))
	}
	return nil
}

func (c *Command) usageError(err error) error {
	if root := c.Root(); root.UsageError != nil {
		return root.UsageError(c, err)
	}
	return err
}

// Find gives the command that the words name, and the words without those that
// named it. Flags may stand between the names.
func (c *Command) Find(words []string) (*Command, []string) {
	for {
		i := c.firstArgument(words)
		if i < 0 {
			return c, words
		}
		sub := c.command(words[i])
		if sub == nil {
			return c, words
		}
		c, words = sub, slices.Concat(words[:i], words[i+1:])
	}
}

// command gives the command of a name or alias, nil if there is none.
func (c *Command) command(name string) *Command {
	for _, sub := range c.commands {
		if sub.Name() == name || slices.Contains(sub.Aliases, name) {
			return sub
		}
	}
	return nil
}

// firstArgument is the index of the first word that is no flag and no flag's
// value, -1 if there is none. A flag that this command does not know is taken
// for one with a value: if it belongs to a command below, it stands behind that
// command's name.
func (c *Command) firstArgument(words []string) int {
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case word == "--":
			return -1
		case c.awaitsValue(word):
			i++
		case word != "" && word[0] != '-':
			return i
		}
	}
	return -1
}

// awaitsValue reports whether a word is a flag whose value is the next word.
func (c *Command) awaitsValue(word string) bool {
	var flag *pflag.Flag
	switch {
	case strings.Contains(word, "="):
		return false
	case strings.HasPrefix(word, "--"):
		flag = c.Flags().Lookup(word[2:])
	case len(word) == 2 && word[0] == '-':
		flag = c.Flags().ShorthandLookup(word[1:])
	default:
		return false
	}
	return flag == nil || flag.NoOptDefVal == ""
}
