package sshserver

import (
	"context"
	"errors"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Domain ends the host names of sandboxes.
const Domain = ".bothy"

// SandboxOf returns the sandbox that a host name means. SSH clients write host names in small letters: such
// a name means a sandbox with other letters if it is the only one.
func SandboxOf(e *engine.Engine, host string) (*spec.Sandbox, error) {
	name := strings.TrimSuffix(host, Domain)
	sb, err := e.Find(name)
	if !errors.Is(err, spec.ErrNotFound) {
		return sb, err
	}
	list, lerr := e.Store.List()
	if lerr != nil {
		return nil, lerr
	}
	list = slices.DeleteFunc(list, func(sb *spec.Sandbox) bool { return !strings.EqualFold(sb.Name, name) })
	switch len(list) {
	case 0:
		return nil, spec.Errorf(spec.ErrNotFound, "no sandbox named %q", name).
			WithHint("list sandboxes: bothy ls; make one: bothy create --name %s shell .", nameFor(name))
	case 1:
		return list[0], nil
	}
	return nil, spec.Errorf(spec.ErrConflict, "%s%s may be %s or %s, and SSH clients do not tell them apart", name, Domain, list[0].Name, list[1].Name).
		WithHint("reach one of them by its ID, which bothy ls --json shows: ssh %s%s", list[0].ID, Domain)
}

// nameFor returns a name for a hint.
func nameFor(name string) string {
	if spec.CheckName(name) != nil {
		return "NAME"
	}
	return name
}

// entering starts programs in a sandbox, after the due parts of its set-up.
type entering struct {
	provisioner *provision.Provisioner
	sandbox     *spec.Sandbox
}

// Ask implements [Programs].
func (in entering) Ask(ctx context.Context, q wire.Ask, files ...*os.File) (*unixconn.Conn, wire.Started, error) {
	s, err := in.provisioner.Enter(ctx, in.sandbox, &q.Command, false)
	if err != nil {
		return nil, wire.Started{}, err
	}
	return s.Ask(ctx, q, files...)
}

// OptionsFor returns the options of a server for a sandbox.
func OptionsFor(p *provision.Provisioner, sb *spec.Sandbox, say func(string)) (Options, error) {
	key, err := HostKey(p.Engine.Store)
	if err != nil {
		return Options{}, err
	}
	o := Options{Key: key, Inside: entering{p, sb}, Name: sb.Name, Say: say}
	if name, _, _ := strings.Cut(sb.User, ":"); name != "" && name != root {
		o.Users = append(o.Users, name)
	}
	if os.Getuid() == 0 {
		return o, nil // the name of this person means root inside
	}
	if me, err := user.Current(); err == nil {
		o.Users = append(o.Users, me.Username)
	}
	return o, nil
}
