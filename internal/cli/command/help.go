package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// nameWidth is the least width of the names in a list of commands.
const nameWidth = 11

// Help writes how the command is used.
func (c *Command) Help() error {
	_, err := io.WriteString(c.Root().Out, c.help())
	return err
}

func (c *Command) help() string {
	var b strings.Builder
	if text := strings.TrimSpace(cmp.Or(c.Long, c.Short)); text != "" {
		fmt.Fprintf(&b, "%s\n\n", text)
	}
	fmt.Fprint(&b, "Usage:\n")
	if c.RunE != nil {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	listed := c.listed()
	if len(listed) > 0 {
		fmt.Fprintf(&b, "  %s [command]\n", c.CommandPath())
	}
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAliases:\n  %s\n", strings.Join(append([]string{c.Name()}, c.Aliases...), ", "))
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if len(listed) > 0 {
		fmt.Fprintf(&b, "\nAvailable Commands:\n%s", table(listed))
	}
	fmt.Fprintf(&b, "\nFlags:\n%s", c.allFlags().FlagUsages())
	if len(listed) > 0 {
		fmt.Fprintf(&b, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	return b.String()
}

// table has one line for each command.
func table(commands []*Command) string {
	width := nameWidth
	for _, sub := range commands {
		width = max(width, len(sub.Name()))
	}
	var b strings.Builder
	for _, sub := range commands {
		fmt.Fprintf(&b, "  %-*s %s\n", width, sub.Name(), sub.Short)
	}
	return b.String()
}

// listed are the commands below this one that are shown, by name.
func (c *Command) listed() []*Command {
	list := slices.DeleteFunc(slices.Clone(c.commands), func(sub *Command) bool { return sub.Hidden })
	slices.SortFunc(list, func(a, b *Command) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}
