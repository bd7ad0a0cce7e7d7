package reconfigure

import (
	"context"
	"errors"
	"slices"

	"github.com/bothy-dev/bothy/internal/apiport"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Ports changes the ports of a sandbox, also of one that runs. With start it starts a sandbox
// that does not run. If the change fails, nothing changes. edit gets the places of the ports now.
func Ports(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, start bool, edit func(sb *spec.Sandbox, at []spec.Port) error) error {
	lock, err := e.Store.PolicyLock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	old, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	changed := *old
	changed.Ports, changed.HostPorts = slices.Clone(old.Ports), slices.Clone(old.HostPorts)
	if err := edit(&changed, publishedPorts(e, sb)); err != nil {
		return err
	}
	if err := apiport.Check(apiport.Dir(e.Store), changed.HostPorts); err != nil {
		return err
	}
	path := e.Store.Sandbox(sb.ID).Spec()
	err = applyPorts(ctx, e, &changed, start)
	if err != nil {
		return errors.Join(err, store.WriteJSON(path, old))
	}
	return nil
}

// applyPorts writes the ports, and puts them into force.
func applyPorts(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, start bool) error {
	write := func() error { return store.WriteJSON(e.Store.Sandbox(sb.ID).Spec(), sb) }
	ask := wire.Ask{Op: wire.OpPorts, Ports: wire.Ports{Published: sb.Ports, Host: sb.HostPorts}}
	runs := true
	err := e.Keepers().Tell(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		if err := write(); err != nil {
			c.Close()
			return err
		}
		return keeperclient.OrderKept(ctx, sb, c, ask)
	}, func() error {
		runs = false
		return write()
	})
	if err != nil {
		return &spec.Error{Op: "change the ports of " + sb.Name, Err: err}
	}
	if runs || !start {
		return nil
	}
	c, err := e.Connect(ctx, sb)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, keeperclient.AnswerTime)
	defer cancel()
	return keeperclient.Order(ctx, sb, c, ask)
}

// publishedPorts returns the places of the published ports of a sandbox; none if it does not run.
func publishedPorts(e *engine.Engine, sb *spec.Sandbox) []spec.Port {
	if st := e.Status(sb); st.State == spec.Running {
		return st.Ports
	}
	return nil
}
