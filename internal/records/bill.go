package records

import (
	"context"
	"errors"
	"io/fs"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Bill returns the use of models by a sandbox over its whole life. It includes the part of an
// answer that a program inside has read.
func Bill(ctx context.Context, k keeperclient.Keepers, sb *spec.Sandbox) (spec.Bill, error) {
	var b spec.Bill
	err := k.Tell(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		if err := c.SendJSON(wire.Request, wire.Ask{Op: wire.OpBill}); err != nil {
			return err
		}
		return c.Expect(wire.Reply, &b)
	}, func() (err error) {
		b, err = WrittenBill(k.Store, sb)
		return err
	})
	if err != nil {
		return b, &spec.Error{Op: "read what models have taken for " + sb.Name, Err: err}
	}
	return b, nil
}

// WrittenBill returns the bill on the disk, also for a sandbox whose keeper does not answer.
func WrittenBill(st *store.Store, sb *spec.Sandbox) (b spec.Bill, err error) {
	err = store.ReadJSON(st.Sandbox(sb.ID).Bill(), &b)
	if errors.Is(err, fs.ErrNotExist) {
		return spec.Bill{}, nil
	}
	return b, err
}
