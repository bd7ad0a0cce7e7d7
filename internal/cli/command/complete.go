package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bothy-dev/bothy/internal/term"
)

// CompleteName is the hidden command that a shell's script calls to complete a
// word: behind it stand the words of the line, the last of which is to be
// completed and may be empty. It prints one candidate a line, "VALUE" or
// "VALUE<TAB>DESCRIPTION", and at last a colon and a Directive. The form is
// that of cobra: docker's own scripts know it, and so do those that people
// installed with earlier versions.
const CompleteName = "__complete"

// Directive tells a shell what to do with the candidates. Its bits can be put
// together.
type Directive int

// Directives.
const (
	Files   Directive = 0 // where there is no candidate, complete a file's name
	Failed  Directive = 1 // nothing is known
	NoSpace Directive = 2 // the word goes on behind the candidate
	NoFiles Directive = 4
)

// A Completer gives candidates for a word; args are the arguments before it.
// What does not begin with word is left out by the caller.
type Completer func(cmd *Command, args []string, word string) ([]string, Directive)

// FileNames completes names of files.
func FileNames(*Command, []string, string) ([]string, Directive) { return nil, Files }

// Words completes one of some words.
func Words(list ...string) Completer {
	return func(*Command, []string, string) ([]string, Directive) { return list, NoFiles }
}

// Commands completes the name of a command below cmd.
func Commands(cmd *Command) (list []string) {
	for _, sub := range cmd.listed() {
		list = append(list, sub.Name()+"\t"+sub.Short)
	}
	return list
}

// CompleteFlag says how a flag's value is completed. It is not unless it is
// said.
func (c *Command) CompleteFlag(name string, complete Completer) {
	if c.values == nil {
		c.values = map[string]Completer{}
	}
	c.values[name] = complete
}

// complete prints the candidates for the last of words.
func (c *Command) complete(words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	last := len(words) - 1
	list, how := c.candidates(words[:last], words[last])
	var b strings.Builder
	for _, candidate := range list {
		value, text, described := strings.Cut(candidate, "\t")
		if described {
			value += "\t" + term.Sanitize(text)
		}
		fmt.Fprintln(&b, value)
	}
	_, err := fmt.Fprintf(c.Root().Out, "%s:%d\n", b.String(), how)
	return err
}

// candidates completes word, which follows the words before.
func (c *Command) candidates(before []string, word string) ([]string, Directive) {
	cmd, rest := c.Find(before)
	flags := cmd.allFlags()
	err := flags.Parse(rest)
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return cmd.value(missing.GetFlag().Name, word)
	}
	if err != nil {
		return nil, Failed
	}
	flagsEnded := flags.ArgsLenAtDash() >= 0 || cmd.FlagsFirst && flags.NArg() > 0
	if strings.HasPrefix(word, "-") && !flagsEnded {
		if name, value, ok := strings.Cut(word, "="); ok {
			return cmd.value(strings.TrimPrefix(name, "--"), value)
		}
		return matching(cmd.flagNames(), NoFiles, word)
	}
	list, how := cmd.arguments(flags.Args(), word)
	return matching(list, how, word)
}

// arguments completes an argument.
func (c *Command) arguments(args []string, word string) ([]string, Directive) {
	switch {
	case c.Complete != nil:
		return c.Complete(c, args, word)
	case len(args) > 0:
		return nil, NoFiles
	case len(c.commands) > 0:
		return Commands(c), NoFiles
	}
	return c.ValidArgs, NoFiles
}

// value completes a flag's value.
func (c *Command) value(flag, word string) ([]string, Directive) {
	complete := c.values[flag]
	if complete == nil {
		return nil, NoFiles
	}
	list, how := complete(c, c.Flags().Args(), word)
	return matching(list, how, word)
}

// flagNames are the flags that can still be given.
func (c *Command) flagNames() (list []string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		_, repeatable := f.Value.(*words)
		if !f.Hidden && (repeatable || !f.Changed) {
			list = append(list, "--"+f.Name+"\t"+f.Usage)
		}
	})
	return list
}

// matching leaves the candidates that begin with word and can be typed: one
// that comes from the disk may hold anything.
func matching(list []string, how Directive, word string) ([]string, Directive) {
	var left []string
	for _, candidate := range list {
		value, _, _ := strings.Cut(candidate, "\t")
		if strings.HasPrefix(value, word) && term.Sanitize(value) == value {
			left = append(left, candidate)
		}
	}
	if len(left) == 0 {
		how &^= NoSpace // whatever the shell finds instead is whole
	}
	return left, how
}
