package serving

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Make and remove tokens for bothy serve"}
	c.AddCommand(a.tokenCreateCommand(), a.tokenLsCommand(), a.tokenRmCommand())
	return c
}

// madeToken is a new token with its text, which is shown once.
type madeToken struct {
	Secret string `json:"secret"`
	apitoken.Token
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var scopes, sandboxes []string
	var w apitoken.Wish
	c := &cobra.Command{
		Use: "create --scope SCOPE... [NAME]", Short: "Make a token, and print it once",
		Long: `Makes a token for clients of bothy serve, and prints it. Bothy keeps only a hash of it.
A scope is a kind of request that the token allows; none includes another:
  read     look at sandboxes, runs, files and logs
  exec     run commands, read and write files inside
  approve  answer for a person: apply changes, allow hosts, answer runs
  admin    create, change and remove sandboxes
With --sandbox the token is for these sandboxes only. NAME is for you.`,
		Example: `  bothy token create --scope read --lasts 24h dashboard
  bothy token create --scope read,exec --sandbox shell-app`,
		Args: cmdline.AtMost(1, "a name"),
		RunE: a.OnEngine(func(_ *cobra.Command, args []string, e *engine.Engine) error {
			if len(scopes) == 0 {
				return spec.Errorf(spec.ErrUsage, "a token needs a scope").WithHint("bothy token create --scope read")
			}
			for _, s := range scopes {
				w.Scopes = append(w.Scopes, apitoken.Scope(s))
			}
			w.Sandboxes = sandboxes
			w.Name = strings.Join(args, "")
			text, t, err := apitoken.Open(e.Store).Create(w)
			if err != nil {
				return err
			}
			return a.Answer(madeToken{text, t}, text)
		}),
	}
	c.Flags().StringSliceVar(&scopes, "scope", nil, "the requests that it allows: read, exec, approve, admin; repeatable")
	c.Flags().StringArrayVar(&sandboxes, "sandbox", nil, "a sandbox that it is for; repeatable (default all)")
	c.Flags().DurationVar(&w.Lasts, "lasts", 0, "how long it is valid, e.g. 24h (default until it is removed)")
	cmdline.CompleteFlag(c, "scope", cmdline.OneOf("read", "exec", "approve", "admin"))
	cmdline.CompleteFlag(c, "sandbox", a.SandboxNames)
	return a.JSONFlag(c)
}

func (a *app) tokenLsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List tokens, without their texts", Args: cmdline.Exactly(0, "no arguments"),
		RunE: a.OnEngine(func(_ *cobra.Command, _ []string, e *engine.Engine) error {
			list, err := apitoken.Open(e.Store).List()
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(map[string]any{"tokens": list})
			}
			w := a.Table()
			fmt.Fprintln(w, "ID\tNAME\tSCOPES\tSANDBOXES\tEXPIRES")
			for _, t := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.ID, term.Sanitize(t.Name), scopeCell(t), namesOrAll(t.Sandboxes), expiryCell(t))
			}
			return w.Flush()
		}),
	}
	return a.JSONFlag(c)
}

func (a *app) tokenRmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Aliases: []string{"remove"}, Short: "Remove tokens: requests with them are refused from then on, and their streams end",
		Args: cmdline.AtLeast(1, "the ID of a token"), ValidArgsFunction: a.tokenIDs,
		RunE: a.OnEngine(func(_ *cobra.Command, args []string, e *engine.Engine) error {
			for _, id := range args {
				if err := apitoken.Open(e.Store).Remove(id); err != nil {
					return err
				}
				fmt.Fprintln(a.Out, id)
			}
			return nil
		}),
	}
}

// tokenIDs completes the IDs of tokens.
func (a *app) tokenIDs(*cobra.Command, []string, string) (ids []string, _ cobra.ShellCompDirective) {
	if e, err := a.Engine(); err == nil {
		list, _ := apitoken.Open(e.Store).List()
		for _, t := range list {
			ids = append(ids, t.ID+"\t"+scopeCell(t))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

func scopeCell(t apitoken.Token) string {
	var names []string
	for _, s := range t.Scopes {
		names = append(names, string(s))
	}
	return strings.Join(names, ",")
}

func namesOrAll(names []string) string {
	if len(names) == 0 {
		return "all"
	}
	return strings.Join(names, ",")
}

func expiryCell(t apitoken.Token) string {
	switch {
	case t.ExpiresAt == nil:
		return "never"
	case t.Expired:
		return "expired"
	}
	return t.ExpiresAt.Local().Format(time.DateTime)
}
