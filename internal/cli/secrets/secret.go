package secrets

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) secretCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "secret", Short: "Credentials that sandboxes may use and never see",
		Long: `Keeps credentials on the host and lends them to sandboxes. Inside there is a
placeholder; on its way to the hosts a lease names, and nowhere else, the network
exchanges it for the value. A change applies at once, also to what runs.`,
	}
	c.AddCommand(a.secretSetCommand(), a.secretLsCommand(), a.secretRmCommand(), a.secretLeaseCommand(),
		a.secretRevokeCommand(), a.secretAuditCommand(), a.secretImportCommand(), a.secretSourcesCommand())
	return c
}

// listedSecret is a secret in ls --json.
type listedSecret struct {
	Name      string       `json:"name"`
	Service   string       `json:"service,omitempty"`
	Source    vault.Source `json:"source"`
	CreatedAt time.Time    `json:"created_at"`
	UpdatedAt time.Time    `json:"updated_at"`
}

// listedLease is a lease in ls --json.
type listedLease struct {
	spec.Lease
	Name string `json:"sandbox_name"`
	Live bool   `json:"live"`
}

func (a *app) secretLsCommand() *cobra.Command {
	var sandbox string
	c := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List secrets and to whom they are lent; never values",
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: a.OnEngine(func(_ *cobra.Command, _ []string, e *engine.Engine) error {
			secrets, err := e.Credentials().Values.Secrets()
			if err != nil {
				return err
			}
			leases, err := listLeases(e, sandbox)
			if err != nil {
				return err
			}
			for _, l := range leases {
				secrets = append(secrets, e.Credentials().CapturedSecrets([]spec.Lease{l.Lease})...)
			}
			return a.printSecrets(secrets, leases)
		}),
	}
	c.Flags().StringVar(&sandbox, "sandbox", "", "only the leases of this sandbox")
	cmdline.CompleteFlag(c, "sandbox", a.SandboxNames)
	return a.JSONFlag(c)
}

func listLeases(e *engine.Engine, sandbox string) ([]listedLease, error) {
	list, err := e.List()
	if err != nil {
		return nil, err
	}
	if sandbox != "" {
		sb, err := e.Find(sandbox)
		if err != nil {
			return nil, err
		}
		list = []engine.Info{{Spec: sb}}
	}
	out := []listedLease{}
	for _, i := range list {
		leases, err := e.Credentials().Leases(i.Spec)
		if err != nil {
			return nil, err
		}
		for _, l := range leases {
			out = append(out, listedLease{Lease: l, Name: i.Spec.Name, Live: l.Live(time.Now())})
		}
	}
	return out, nil
}

func (a *app) printSecrets(secrets []vault.Secret, leases []listedLease) error {
	if a.JSON {
		list := []listedSecret{}
		for _, s := range secrets {
			list = append(list, listedSecret{s.Name, s.Service, s.Source, s.CreatedAt, s.UpdatedAt})
		}
		return a.PrintJSON(map[string]any{"secrets": list, "leases": leases})
	}
	w := a.Table()
	fmt.Fprintln(w, "SECRET\tSERVICE\tSOURCE\tCHANGED")
	for _, s := range secrets {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, cmdline.Dash(s.Service), console.Printable(s.Source.String()), s.UpdatedAt.Local().Format(time.DateTime))
	}
	if err := w.Flush(); err != nil || len(leases) == 0 {
		return err
	}
	fmt.Fprintln(a.Out)
	fmt.Fprintln(w, "LEASE\tSECRET\tSANDBOX\tHOSTS\tPLACE\tVARIABLES\tUNTIL")
	for _, l := range leases {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, l.Secret, l.Name, strings.Join(l.Hosts, ","),
			placeCell(l.Place), cmdline.Dash(strings.Join(toldBy(&l.Lease), ",")), untilCell(&l.Lease))
	}
	return w.Flush()
}

// toldBy returns the places in which programs inside find a lease.
func toldBy(l *spec.Lease) []string {
	list := slices.Clone(l.Env)
	for _, s := range l.Settings {
		where := s.Name
		switch s.Kind {
		case spec.SettingGit:
			where = "git"
		case spec.SettingNpm:
			where = "~/.npmrc"
		}
		if !slices.Contains(list, where) {
			list = append(list, where)
		}
	}
	return list
}

func placeCell(p spec.Place) string {
	name := p.Name
	if p.Kind == spec.PlaceBasic {
		name = p.User
	}
	return strings.TrimSuffix(string(p.Kind)+":"+name, ":")
}

func untilCell(l *spec.Lease) string {
	switch {
	case l.Until.IsZero():
		return "-"
	case !l.Live(time.Now()):
		return "over"
	}
	return l.Until.Local().Format(time.DateTime)
}

func (a *app) secretRmCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove", "delete"}, Short: "Forget secrets and end their leases",
		Args: cmdline.AtLeast(1, "the name of a secret"), ValidArgsFunction: a.SecretNames,
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			for _, name := range args {
				if err := e.Credentials().RemoveSecret(cmd.Context(), name); err != nil {
					return err
				}
				fmt.Fprintln(a.Out, name)
			}
			return nil
		}),
	}
	c.Flags().BoolP("force", "f", false, "accepted: nothing is asked")
	return c
}
