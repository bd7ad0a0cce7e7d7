package cli

import (
	"fmt"

	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/internal/doctor"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) doctorCommand() *command.Command {
	return a.jsonFlag(&command.Command{
		Use: "doctor", Short: "Check whether this host can run sandboxes, and say what to mend",
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *command.Command, _ []string) error {
			dir, _ := store.Dir()
			checks := doctor.Run(cmd.Context(), dir)
			failed := 0
			for _, c := range checks {
				if c.Result == doctor.Fail {
					failed++
				}
				if !a.json {
					fmt.Fprintf(a.stdout, "%-5s %-22s %s\n", c.Result, c.Name, c.Detail)
					if c.Fix != "" {
						fmt.Fprintf(a.stdout, "      %-22s fix: %s\n", "", c.Fix)
					}
				}
			}
			if a.json {
				if err := a.printJSON(map[string]any{"ok": failed == 0, "checks": checks}); err != nil {
					return err
				}
			}
			if failed > 0 {
				return spec.Errorf(nil, "%d checks failed: sandboxes cannot run here", failed)
			}
			return nil
		},
	})
}
