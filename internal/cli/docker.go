package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// findDockerd is a script that exits with one of the codes below.
const findDockerd = `PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if command -v dockerd; then exit 0; fi
if ! command -v apt-get; then exit 12; fi
while read -r line; do
	case $line in ID=debian | ID='"debian"') exit 10 ;; esac
done < /etc/os-release
exit 11`

const (
	dockerdMissing = 10 // on Debian
	dockerdByApt   = 11 // on another system with apt
	dockerdNowhere = 12
)

// installDocker is the command that installs Debian's package, as root.
const installDocker = "export DEBIAN_FRONTEND=noninteractive; apt-get -q update && apt-get -yq install docker.io"

// provideDocker handles a new sandbox whose template lacks dockerd. At a terminal it asks whether to
// install it; elsewhere it prints the command that does.
func (a *app) provideDocker(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, asks bool) error {
	in := headless.Session{Engine: e, Sandbox: sb, Prepares: true}
	status, err := in.Run(ctx, wire.Command{Args: []string{"/bin/sh", "-c", findDockerd}}, "", io.Discard, io.Discard)
	if err != nil {
		return nil // the next step reports any failure
	}
	switch status {
	case dockerdMissing:
		if asks && a.CanAsk() && a.Ask("bothy: sandbox %s has no dockerd. Install docker.io in it now, and let it read Debian's packages for that (preset debian)?", sb.Name) {
			return a.installDocker(ctx, &in)
		}
		a.Note("sandbox %s has no dockerd; to install it there: bothy policy allow --preset debian --sandbox %s && bothy exec %s sudo sh -c 'apt-get update && apt-get install -y docker.io'", sb.Name, sb.Name, sb.Name)
	case dockerdByApt:
		a.Note("sandbox %s has no dockerd; to install it there: bothy exec %s sudo sh -c 'apt-get update && apt-get install -y docker.io'", sb.Name, sb.Name)
	case dockerdNowhere:
		a.Note("sandbox %s has no dockerd: its template lacks it, and has no apt-get to install docker.io with", sb.Name)
	}
	return nil
}

// installDocker lets a sandbox read Debian's packages and installs the daemon. If apt-get fails, it
// prints a note and the run continues.
func (a *app) installDocker(ctx context.Context, in *headless.Session) error {
	err := in.Engine.Rules().Edit(ctx, in.Sandbox, func(f *policyfile.File) error { return f.AddPreset("debian") })
	if err != nil {
		return fmt.Errorf("let sandbox %s read Debian's packages: %w", in.Sandbox.Name, err)
	}
	out, errs := a.Lines()
	status, err := in.Run(ctx, wire.Command{User: "root", Args: []string{"/bin/sh", "-c", installDocker}}, "", out, errs)
	out.End()
	errs.End()
	if err != nil {
		return fmt.Errorf("install docker.io in sandbox %s: %w", in.Sandbox.Name, err)
	}
	if status != 0 {
		a.Note("docker.io was not installed in sandbox %s: apt-get ended with code %d; its refused requests: bothy policy log %s", in.Sandbox.Name, status, in.Sandbox.Name)
	}
	return nil
}
