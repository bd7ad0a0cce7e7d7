package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// maxPorts bounds the published ports of a sandbox, and the host's ports that are open to it.
const maxPorts = 64

// Publish adds a port to the published ports of a sandbox.
func Publish(sb *spec.Sandbox, p spec.Port) error {
	for _, q := range sb.Ports {
		if p == q {
			return nil
		}
		if p.HostPort != 0 && p.HostPort == q.HostPort && overlap(p, q) {
			return spec.Errorf(spec.ErrUsage, "port %d of the host is for port %d inside already, it cannot be for %d too", p.HostPort, q.Port, p.Port)
		}
	}
	if len(sb.Ports) >= maxPorts {
		return spec.Errorf(spec.ErrUsage, "at most %d ports can be published", maxPorts)
	}
	sb.Ports = append(sb.Ports, p)
	return nil
}

// overlap reports whether two ports may need the same address of the host.
func overlap(p, q spec.Port) bool {
	covers := func(p, q spec.Port) bool {
		switch {
		case p.HostIP == q.HostIP:
			return true
		case !p.HostIP.IsValid():
			return q.HostIP.String() == "127.0.0.1" || q.HostIP.String() == "::1"
		}
		return p.HostIP.IsUnspecified() && (!q.HostIP.IsValid() || q.HostIP.Is4() == p.HostIP.Is4())
	}
	return covers(p, q) || covers(q, p)
}

// Unpublish removes the ports that p means, either as they were asked for or as they are published.
func Unpublish(sb *spec.Sandbox, p spec.Port, at []spec.Port) error {
	n := len(sb.Ports)
	wishes := slices.Clone(sb.Ports)
	sb.Ports = slices.DeleteFunc(sb.Ports, func(q spec.Port) bool {
		return p.Covers(q) || slices.ContainsFunc(at, func(a spec.Port) bool {
			return p.Covers(a) && answers(q, a, wishes)
		})
	})
	if len(sb.Ports) == n {
		return spec.Errorf(spec.ErrNotFound, "sandbox %s publishes nothing as %s", sb.Name, p).
			WithHint("bothy ports %s lists what it does", sb.Name)
	}
	return nil
}

// answers reports whether a published port exists because of a wish. A wish without a port of the
// host answers for the ports that no other wish names.
func answers(wish, at spec.Port, wishes []spec.Port) bool {
	if !wish.Covers(at) || !wish.HostIP.IsValid() && !at.HostIP.IsLoopback() {
		return false
	}
	named := func(w spec.Port) bool { return w.HostPort == at.HostPort && w.Covers(at) }
	return wish.HostPort != 0 || !slices.ContainsFunc(wishes, named)
}

// OpenHostPort lets a sandbox reach a port of the host's loopback.
func OpenHostPort(sb *spec.Sandbox, port uint16) error {
	if slices.Contains(sb.HostPorts, port) {
		return nil
	}
	if len(sb.HostPorts) >= maxPorts {
		return spec.Errorf(spec.ErrUsage, "at most %d ports of the host can be open", maxPorts)
	}
	sb.HostPorts = append(sb.HostPorts, port)
	return nil
}

// CloseHostPort closes a port of the host to a sandbox again.
func CloseHostPort(sb *spec.Sandbox, port uint16) error {
	i := slices.Index(sb.HostPorts, port)
	if i < 0 {
		return spec.Errorf(spec.ErrNotFound, "port %d of the host is not open to sandbox %s", port, sb.Name)
	}
	sb.HostPorts = slices.Delete(sb.HostPorts, i, i+1)
	return nil
}

// EditPorts changes the ports of a sandbox, also of one that runs. With start it starts a sandbox
// that does not run. If the change fails, nothing changes. edit gets the places of the ports now.
func (e *Engine) EditPorts(ctx context.Context, sb *spec.Sandbox, start bool, edit func(sb *spec.Sandbox, at []spec.Port) error) error {
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
	if err := edit(&changed, e.Ports(sb)); err != nil {
		return err
	}
	path := e.Store.Sandbox(sb.ID).Spec()
	err = e.applyPorts(ctx, &changed, start)
	if err != nil {
		return errors.Join(err, store.WriteJSON(path, old))
	}
	return nil
}

// applyPorts writes the ports, and puts them into force.
func (e *Engine) applyPorts(ctx context.Context, sb *spec.Sandbox, start bool) error {
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

// Ports returns the places of the published ports of a sandbox; none if it does not run.
func (e *Engine) Ports(sb *spec.Sandbox) []spec.Port {
	if st := e.Status(sb); st.State == spec.Running {
		return st.Ports
	}
	return nil
}
