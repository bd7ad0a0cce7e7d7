package cmdline

import (
	"github.com/spf13/cobra"
)

// serverFlags name a model server of the user's own, for a new sandbox.
type serverFlags struct{ url, key, model string }

func (f *serverFlags) addFlags(a *App, c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.url, "model-server", "", "have the agent ask this server instead of its maker's: URL, e.g. http://localhost:11434; none: not even that of the settings")
	fs.StringVar(&f.key, "model-key", "", "the secret that is lent for it")
	fs.StringVar(&f.model, "server-model", "", "what the server calls the model that is asked")
	CompleteFlag(c, "model-key", a.SecretNames)
}
