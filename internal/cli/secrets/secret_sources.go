package secrets

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/spec"
)

// foundToken is a token in sources --json.
type foundToken struct {
	Tool  string   `json:"tool"`
	For   string   `json:"for,omitempty"`
	From  string   `json:"from"`
	Hosts []string `json:"hosts"`
	Error string   `json:"error,omitempty"` // why it cannot be lent
	Hint  string   `json:"hint,omitempty"`
}

func (a *app) secretSourcesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "sources [TOOL...]", Short: "Show what tools of this host log in with, and could be lent; never values",
		Long: `Looks where gh, git, npm and pip of this host keep what they log in with, and for the
agent of its ssh. Nothing of it is lent unless you say so: bothy run --lend TOOL, or
--lend TOOL:HOST for one server.`,
		Example:           "  bothy secret sources\n  bothy run --lend github,npm shell .",
		ValidArgsFunction: cmdline.OneOf(hostcreds.Names()...),
		RunE: a.OnEngine(func(_ *cobra.Command, args []string, e *engine.Engine) error {
			if _, err := hostcreds.ParseChoices(args); err != nil {
				return err
			}
			list, err := e.Credentials().Values.Tokens(args...)
			if err != nil {
				return err
			}
			return a.printTokens(list)
		}),
	}
	return a.JSONFlag(c)
}

func (a *app) printTokens(list []hostcreds.Token) error {
	out := []foundToken{}
	for _, t := range list {
		f := foundToken{Tool: t.Tool, For: t.For, From: t.From, Hosts: []string{}}
		if t.Err != nil {
			f.Error, f.Hint = t.Err.Error(), spec.Hint(t.Err)
		} else {
			f.Hosts = t.Terms.Hosts
		}
		out = append(out, f)
	}
	if a.JSON {
		return a.PrintJSON(map[string]any{"tokens": out})
	}
	if len(out) == 0 {
		a.Note("no token of %s was found", strings.Join(hostcreds.Names(), ", "))
		return nil
	}
	w := a.Table()
	fmt.Fprintln(w, "TOOL\tFOR\tFROM\tIF LENT, GOES TO")
	for _, f := range out {
		goes := strings.Join(f.Hosts, ",")
		if goes == "" {
			goes = "no server: it signs logins at servers the network policy allows"
			if f.Tool == "ssh-sign" {
				goes = "no server: it signs commits and tags of git"
			}
		}
		if f.Error != "" {
			goes = "no server: " + f.Error
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Tool, cmdline.Dash(console.Printable(f.For)), console.Printable(f.From), console.Printable(goes))
	}
	return w.Flush()
}
