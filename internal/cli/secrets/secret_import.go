package secrets

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// imported is one finding of import.
type imported struct {
	Name     string `json:"name"`
	Variable string `json:"variable"`
	Result   string `json:"result"` // imported, found, kept (such a secret exists), or elsewhere (see Reason)
	Reason   string `json:"reason,omitempty"`
}

// elsewhere is the result for a credential that may be for another server than the service's.
const elsewhere = "elsewhere"

func (a *app) secretImportCommand() *cobra.Command {
	var dry, force, all bool
	c := &cobra.Command{
		Use: "import [SERVICE...]", Short: "Store credentials found in your environment",
		Long: "Stores the credentials of known services that stand in your environment, each\nunder its service's name. Those that are there already are kept. One that may be for\nanother server, which the host has an agent ask, is not stored.",
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			services := vault.Services
			if len(args) > 0 {
				services = nil
			}
			for _, name := range args {
				s := vault.FindService(name)
				if s == nil {
					return spec.Errorf(spec.ErrUsage, "no service named %q", name).WithHint("there are: %s", serviceNames())
				}
				services = append(services, *s)
			}
			found, err := a.importAll(cmd, e, services, dry, force)
			if perr := a.printImported(found); err == nil {
				err = perr
			}
			return err
		}),
		ValidArgsFunction: cmdline.OneOf(vaultServices()...),
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only tell what would be stored")
	c.Flags().BoolVarP(&force, "force", "f", false, "replace an existing secret")
	c.Flags().BoolVar(&all, "all", false, "accepted for docker's sake: without SERVICE all are")
	_ = c.Flags().MarkHidden("all")
	return a.JSONFlag(c)
}

func vaultServices() (names []string) {
	for _, s := range vault.Services {
		names = append(names, s.Name)
	}
	return names
}

func (a *app) importAll(cmd *cobra.Command, e *engine.Engine, services []vault.Service, dry, force bool) ([]imported, error) {
	have, err := e.Credentials().Values.Secrets()
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, s := range have {
		there[s.Name] = true
	}
	out := []imported{}
	for _, s := range services {
		variable, value := fromEnvironment(s)
		if value == "" {
			continue
		}
		other, err := e.Credentials().Values.Elsewhere(s.Name)
		if err != nil {
			return out, err
		}
		i := imported{Name: s.Name, Variable: variable, Result: "imported"}
		switch {
		case there[s.Name] && !force:
			i.Result = "kept"
		case other != "":
			i.Result, i.Reason = elsewhere, other
		case dry:
			i.Result = "found"
		default:
			n := credential.NewSecret{Name: s.Name, Service: s.Name, Source: vault.Source{Kind: vault.SourceStored}, Value: []byte(value)}
			if err := e.Credentials().SetSecret(cmd.Context(), n); err != nil {
				return out, fmt.Errorf("import %s from %s: %w", s.Name, variable, err)
			}
		}
		out = append(out, i)
	}
	return out, nil
}

// fromEnvironment looks for a service's credential in the environment.
func fromEnvironment(s vault.Service) (variable, value string) {
	for _, name := range s.Env {
		if v := os.Getenv(name); v != "" {
			return name, v
		}
	}
	return "", ""
}

func (a *app) printImported(list []imported) error {
	if a.JSON {
		return a.PrintJSON(map[string]any{"secrets": list})
	}
	if len(list) == 0 {
		a.Note("your environment has no credential of a known service")
		return nil
	}
	w := a.Table()
	left := false
	for _, i := range list {
		result := i.Result
		if i.Result == elsewhere {
			result, left = "not stored: "+console.Printable(i.Reason), true
		}
		fmt.Fprintf(w, "%s\t$%s\t%s\n", i.Name, i.Variable, result)
	}
	err := w.Flush()
	if left {
		a.Note("docs/guide/agents.md tells how to lend a credential for another server; if it is for the service's own: printenv VARIABLE | bothy secret set NAME")
	}
	return err
}
