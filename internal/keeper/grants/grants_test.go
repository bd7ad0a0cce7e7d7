package grants

import (
	"log/slog"

	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/spec"
)

// granting returns grants of a sandbox without rules and secrets.
func granting() *Grants {
	return &Grants{Options: Options{
		Spec: &spec.Sandbox{ID: "0123456789ab", Name: "box"}, Launch: &launch.Settings{}, Log: slog.New(slog.DiscardHandler),
	}}
}
