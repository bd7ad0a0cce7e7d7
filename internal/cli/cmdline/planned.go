package cmdline

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/app"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/provision"
)

// Provisioner returns a provisioner that shows its progress here.
func (a *App) Provisioner(e *engine.Engine) *provision.Provisioner {
	return app.Provisioner(e, a.Settings, a.Watcher(false))
}

// ShowPlan prints the notes of a plan, and asks the user its open questions.
func (a *App) ShowPlan(pl *provision.Plan) {
	for _, note := range pl.Notes {
		a.Note("%s", note)
	}
	if a.CanAsk() {
		pl.AnswerGit(func(question string) bool { return a.Ask("bothy: %s", question) })
	}
}

// AdviseGit prints why git does not work in a new sandbox, and the command that makes one in which it
// does.
func (a *App) AdviseGit(cmd *cobra.Command, pl *provision.Plan) {
	for _, g := range pl.Git {
		a.Note("%s", g.Why)
		verb, before := "create", ""
		if !cmd.Parent().HasParent() {
			verb = cmd.Name()
			if cmd.Flags().Changed("name") {
				g.Options = append([]string{"--name", pl.Sandbox.Name}, g.Options...)
			}
			if pl.Sandbox.Remove {
				g.Options = append([]string{"--rm"}, g.Options...)
			} else {
				before = "bothy rm -f " + pl.Sandbox.Name + " && "
			}
		}
		a.Note("hint: %s%s", before, g.Command(verb, pl.Sandbox.Agent))
	}
}
