package keeper

import (
	"errors"
	"fmt"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// answerPorts publishes ports and opens host ports for a caller.
func (k *Keeper) answerPorts(c *unixconn.Conn, want wire.Ports) error {
	if err := k.life.beginCommand(); err != nil {
		return err
	}
	defer k.life.endCommand()
	<-k.recorded
	err := k.ports.Set(want.Published, k.gateway)
	if errors.Is(err, spec.ErrStopping) {
		return err
	}
	at := k.ports.List()
	k.status.Update(func(st *spec.Status) { st.Ports = at })
	if err != nil {
		return err
	}
	k.gateway.SetHostPorts(want.Host)
	k.writeEvent("ports", map[string]any{"published": want.Published, "host": want.Host})
	return c.SendJSON(wire.Reply, wire.Ports{Published: at, Host: want.Host})
}

// busyPort adds a hint how an existing sandbox can give a port up.
func (k *Keeper) busyPort(err error) error {
	said, ok := errors.AsType[*spec.Error](err)
	if ok && k.ranBefore && errors.Is(err, spec.ErrConflict) {
		said.Hint += fmt.Sprintf("; bothy ports %s --unpublish PORT gives it up", k.spec.Name)
	}
	return err
}
