package cli

import (
	"context"
	"io"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/inside"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// warnDocker tells of a sandbox that is to have a Docker daemon, and whose template has not the
// program. What asks for the daemon hears it, too, if there is anything to ask with.
func (a *app) warnDocker(ctx context.Context, e *engine.Engine, sb *spec.Sandbox) {
	in := inside.Session{Engine: e, Sandbox: sb, Prepares: true}
	look := wire.Command{Args: []string{"/bin/sh", "-c", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin command -v dockerd"}}
	if status, err := in.Run(ctx, look, "", io.Discard, io.Discard); err != nil || status == 0 {
		return // whatever fails now is told by what comes next
	}
	a.note("there is no dockerd in sandbox %s; to install it there: bothy exec %s sudo sh -c 'apt-get update && apt-get install -y docker.io'", sb.Name, sb.Name)
}
