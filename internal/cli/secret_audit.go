package cli

import (
	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/cli/command"
)

func (a *app) secretAuditCommand() *command.Command {
	var secret, sandbox string
	c := &command.Command{
		Use: "audit", Short: "Show what was done with secrets: set, lent, used, refused, revoked",
		Args: exactly(0, "no arguments"),
		RunE: func(*command.Command, []string) error {
			e, err := a.engine()
			if err != nil {
				return err
			}
			events, err := e.SecretEvents()
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
				if err := a.showEvent(ev); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&secret, "secret", "", "only of this secret")
	c.Flags().StringVar(&sandbox, "sandbox", "", "only of this sandbox")
	c.CompleteFlag("sandbox", a.sandboxNames)
	c.CompleteFlag("secret", a.secretNames)
	return a.jsonFlag(c)
}
