package secrets

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// placeFlags say where in a request a secret belongs.
type placeFlags struct {
	bearer        bool
	header, query string
	basic         string
}

func (a *app) secretLeaseCommand() *cobra.Command {
	var sandbox string
	var t vault.Terms
	var p placeFlags
	c := &cobra.Command{
		Use: "lease NAME --sandbox SANDBOX", Short: "Lend a secret to a sandbox",
		Long: `Lends a secret to a sandbox and prints the lease's ID. Commands inside find a
placeholder in the usual variable; only on its way to the lease's hosts does the
value take its place. Of a known service hosts, place and variables are known.

A lease allows nothing by itself: the network policy must allow the hosts, too.`,
		Example: "  bothy secret lease anthropic --sandbox shell-app --for 8h\n" +
			"  bothy secret lease ci --sandbox shell-app --host ci.example.com --header x-token --method GET",
		Args: cmdline.Exactly(1, "the name of a secret"), ValidArgsFunction: a.SecretNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if sandbox == "" {
				return spec.Errorf(spec.ErrUsage, "a secret is lent to a sandbox").WithHint("name it: --sandbox SANDBOX")
			}
			e, sb, err := a.Existing(sandbox)
			if err != nil {
				return err
			}
			if t.Place, err = p.place(cmd.Flags().Changed("basic")); err != nil {
				return err
			}
			if cmd.Flags().Changed("env") {
				t.Env = slices.DeleteFunc(t.Env, func(name string) bool { return name == "" })
			}
			l, err := e.Credentials().Lend(cmd.Context(), sb, args[0], t)
			if l != nil {
				a.warnUnreachable(e, sb, l)
			}
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(l)
			}
			_, err = fmt.Fprintln(a.Out, l.ID)
			return err
		},
	}
	fs := c.Flags()
	fs.StringVar(&sandbox, "sandbox", "", "to whom")
	fs.StringArrayVar(&t.Hosts, "host", nil, "a host that gets it, as in a rule of the policy; repeatable")
	fs.StringArrayVar(&t.Methods, "method", nil, "only requests with this method; repeatable")
	fs.StringArrayVar(&t.Paths, "path", nil, "only requests with this path, e.g. /repos/acme/**; repeatable")
	fs.BoolVar(&p.bearer, "bearer", false, "it belongs into Authorization: Bearer")
	fs.StringVar(&p.header, "header", "", "it is the value of this header")
	fs.StringVar(&p.query, "query", "", "it is the value of this parameter of the query")
	fs.StringVar(&p.basic, "basic", "", "it is the password of this user; an empty one: of any")
	fs.StringArrayVar(&t.Env, "env", nil, "variable inside that holds the placeholder; repeatable, an empty one: none")
	fs.Var((*cmdline.Life)(&t.For), "for", "end the lease after this time, e.g. 8h; forever: when it is revoked, as without it")
	cmdline.MayBeEmpty(c, "basic", "env")
	cmdline.CompleteFlag(c, "sandbox", a.SandboxNames)
	return a.JSONFlag(c)
}

// place returns the place of the flags, or nil if none is given.
func (p *placeFlags) place(basic bool) (*spec.Place, error) {
	var list []spec.Place
	if p.bearer {
		list = append(list, spec.Place{Kind: spec.PlaceBearer})
	}
	if p.header != "" {
		list = append(list, spec.Place{Kind: spec.PlaceHeader, Name: p.header})
	}
	if p.query != "" {
		list = append(list, spec.Place{Kind: spec.PlaceQuery, Name: p.query})
	}
	if basic {
		list = append(list, spec.Place{Kind: spec.PlaceBasic, User: p.basic})
	}
	switch len(list) {
	case 0:
		return nil, nil
	case 1:
		return &list[0], nil
	}
	return nil, spec.Errorf(spec.ErrUsage, "--bearer, --header, --query and --basic exclude each other").WithHint("lend the secret once more for another place")
}

// warnUnreachable prints which hosts of a lease the sandbox does not reach.
func (a *app) warnUnreachable(e *engine.Engine, sb *spec.Sandbox, l *spec.Lease) {
	for _, note := range provision.Unreachable(e, sb, l) {
		a.Note("%s", note)
	}
}

func (a *app) secretRevokeCommand() *cobra.Command {
	var sandbox string
	var all bool
	c := &cobra.Command{
		Use: "revoke NAME|ID...", Short: "End leases, also of what runs",
		Example:           "  bothy secret revoke anthropic\n  bothy secret revoke --all",
		ValidArgsFunction: a.SecretNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return spec.Errorf(spec.ErrUsage, "name secrets or leases, or use --all")
			}
			e, err := a.Engine()
			if err != nil {
				return err
			}
			var sb *spec.Sandbox
			if sandbox != "" {
				if sb, err = e.Find(sandbox); err != nil {
					return err
				}
			}
			gone, err := e.Credentials().Revoke(cmd.Context(), sb, func(l *spec.Lease) bool {
				return all || slices.Contains(args, l.ID) || slices.Contains(args, l.Secret)
			})
			for _, l := range gone {
				fmt.Fprintln(a.Out, l.ID)
			}
			if err != nil {
				return err
			}
			return missing(args, gone)
		},
	}
	c.Flags().StringVar(&sandbox, "sandbox", "", "only of this sandbox")
	c.Flags().BoolVar(&all, "all", false, "every lease there is")
	cmdline.CompleteFlag(c, "sandbox", a.SandboxNames)
	return c
}

// missing returns an error for an argument that ended no lease.
func missing(args []string, gone []spec.Lease) error {
	for _, arg := range args {
		if !slices.ContainsFunc(gone, func(l spec.Lease) bool { return l.ID == arg || l.Secret == arg }) {
			return spec.Errorf(spec.ErrNotFound, "no lease of %s", console.Printable(arg)).WithHint("bothy secret ls shows what there is")
		}
	}
	return nil
}
