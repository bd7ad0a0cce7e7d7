package keeperclient

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Inside asks a running sandbox's keeper for its status. A keeper that is starting or ending takes no
// requests: Inside tries again for HelloTimeout, until the keeper answers or is gone.
func (k Keepers) Inside(ctx context.Context, sb *spec.Sandbox) (wire.KeeperStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for again := time.Now().Add(HelloTimeout); ; {
		st, err := k.askStatus(ctx, sb)
		if err == nil {
			return st, nil
		}
		if ctx.Err() != nil { // that closed the connection
			return st, k.unheard(sb, context.Cause(ctx))
		}
		if !absent(err) || time.Now().After(again) || k.Status(sb).State != spec.Running {
			return st, k.unheard(sb, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(LockPoll):
		}
	}
}

// askStatus asks for the status of Inside once.
func (k Keepers) askStatus(ctx context.Context, sb *spec.Sandbox) (st wire.KeeperStatus, err error) {
	c, err := dialControl(k.Store.Sandbox(sb.ID))
	if err != nil {
		return st, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := c.SendJSON(wire.Request, wire.Ask{Op: wire.OpStatus}); err != nil {
		return st, err
	}
	return st, c.Expect(wire.Reply, &st)
}

// absent reports whether an error of dialControl, or of a request, means that no keeper takes requests: not
// yet, or not any more.
func absent(err error) bool {
	return IsSevered(err) || errors.Is(err, spec.ErrStopping) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

// unheard returns why a keeper could not be asked.
func (k Keepers) unheard(sb *spec.Sandbox, err error) error {
	switch {
	case !k.Store.Has(sb.ID):
		return ErrRemoved(sb)
	case k.Status(sb).State != spec.Running:
		return spec.Errorf(spec.ErrConflict, "sandbox %s does not run", sb.Name)
	case errors.Is(err, errSilent), errors.Is(err, context.DeadlineExceeded):
		return Silent(sb)
	case absent(err):
		return spec.Errorf(spec.ErrSandbox, "sandbox %s starts or stops just now, and answers nothing until then", sb.Name).
			WithHint("try again; if it stays so: bothy stop %s", sb.Name)
	}
	if _, known := errors.AsType[*spec.Error](err); known {
		return err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // its addresses are those of a file descriptor
	}
	return spec.Errorf(spec.ErrSandbox, "ask sandbox %s how it stands: %v", sb.Name, err).WithHint("bothy stop %s ends it", sb.Name)
}
