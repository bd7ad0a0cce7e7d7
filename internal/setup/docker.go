package setup

import (
	"context"
	"errors"
	"fmt"
	"io"

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

// aptInstall is the command that installs Debian's package, as root.
const aptInstall = "export DEBIAN_FRONTEND=noninteractive; apt-get -q update && apt-get -yq install docker.io"

// provideDocker looks once whether a sandbox with Docker has the daemon. If a person can be asked, it offers to
// install the daemon; else it notes the command that does. A person who declines is not asked again.
func (s *sequence) provideDocker(ctx context.Context) error {
	if !s.sandbox.Docker || s.had.Docker {
		return nil
	}
	status, err := s.session().Run(ctx, wire.Command{Args: []string{"/bin/sh", "-c", findDockerd}}, "", io.Discard, io.Discard)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, spec.ErrNoSuchBinary) { // not even a shell
		status, err = dockerdNowhere, nil
	}
	if err != nil {
		return nil // the next step reports any failure
	}
	if err := s.tellOfDockerd(ctx, status); err != nil {
		return err
	}
	s.had.Docker = true
	if s.sandbox.Remove { // it is not used again
		return nil
	}
	return s.writeRecord()
}

// tellOfDockerd tells what findDockerd found by its exit code.
func (s *sequence) tellOfDockerd(ctx context.Context, status int) error {
	name, note := s.sandbox.Name, s.viewer.Note
	switch status {
	case dockerdMissing:
		if s.viewer.Ask != nil && s.viewer.Ask(fmt.Sprintf("sandbox %s has no dockerd. Install docker.io in it now, and let it read Debian's packages for that (preset debian)?", name)) {
			return s.installDocker(ctx)
		}
		note("sandbox %s has no dockerd; to install it there: bothy policy allow --preset debian --sandbox %s && bothy exec --no-setup %s sudo sh -c 'apt-get update && apt-get install -y docker.io'", name, name, name)
	case dockerdByApt:
		note("sandbox %s has no dockerd; to install it there: bothy exec --no-setup %s sudo sh -c 'apt-get update && apt-get install -y docker.io'", name, name)
	case dockerdNowhere:
		note("sandbox %s has no dockerd: its template lacks it, and has no apt-get to install docker.io with", name)
	}
	return nil
}

// installDocker lets the sandbox read Debian's packages and installs the daemon. If apt-get fails, a note says
// so, and the set-up continues.
func (s *sequence) installDocker(ctx context.Context) error {
	name := s.sandbox.Name
	err := s.engine.Rules().Edit(ctx, s.sandbox, func(f *policyfile.File) error { return f.AddPreset("debian") })
	if err != nil {
		return fmt.Errorf("let sandbox %s read Debian's packages: %w", name, err)
	}
	status, err := s.runInside(ctx, wire.Command{User: "root", Args: []string{"/bin/sh", "-c", aptInstall}})
	if err != nil {
		return fmt.Errorf("install docker.io in sandbox %s: %w", name, err)
	}
	if status != 0 {
		s.viewer.Note("docker.io was not installed in sandbox %s: apt-get ended with code %d; its refused requests: bothy policy log %s", name, status, name)
	}
	return nil
}
