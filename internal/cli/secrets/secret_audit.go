package secrets

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
)

func (a *app) secretAuditCommand() *cobra.Command {
	var secret, sandbox string
	c := &cobra.Command{
		Use: "audit", Short: "Show the log of secrets: set, lent, used, refused, revoked",
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: a.OnEngine(func(_ *cobra.Command, _ []string, e *engine.Engine) error {
			events, err := e.Credentials().Values.Events()
			if err != nil {
				return err
			}
			wanted := func(ev audit.Event) bool {
				return (secret == "" || ev.Fields["secret"] == secret) && (sandbox == "" || ev.Fields["sandbox"] == sandbox)
			}
			for _, ev := range events {
				if !wanted(ev) {
					continue
				}
				if err := a.ShowEvent(ev); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().StringVar(&secret, "secret", "", "only of this secret")
	c.Flags().StringVar(&sandbox, "sandbox", "", "only of this sandbox")
	cmdline.CompleteFlag(c, "sandbox", a.SandboxNames)
	cmdline.CompleteFlag(c, "secret", a.SecretNames)
	return a.JSONFlag(c)
}
