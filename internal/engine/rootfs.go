package engine

import (
	"context"
	"io"
	"os"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Images returns the container images of the state directory.
func (e *Engine) Images() *rootfs.Images {
	return &rootfs.Images{Store: e.Store, Room: e.storeRoom(), Sandboxes: lifeCycle{e}, Held: &e.hold, Say: e.say}
}

// Templates returns the templates that were made from sandboxes.
func (e *Engine) Templates() *rootfs.Templates {
	return &rootfs.Templates{Images: e.Images(), Sealer: lifeCycle{e}}
}

// Builds returns the builds of images, and the cache of their steps.
func (e *Engine) Builds() *rootfs.Builds { return &rootfs.Builds{Images: e.Images()} }

// Disk returns the accounts of the state directory's disk.
func (e *Engine) Disk() *rootfs.Disk {
	return &rootfs.Disk{Images: e.Images(), Builds: e.Builds(), Sandboxes: e.diskSandboxes, Agents: e.Programs().ListDisk}
}

// storeRoom returns the part of the disk that the state directory may take.
func (e *Engine) storeRoom() rootfs.Room { return rootfs.Room{Store: e.Store, Limit: e.StoreLimit} }

// CheckRoom returns an error if the state directory takes more of the disk than it may.
func (e *Engine) CheckRoom() error { return e.storeRoom().Check() }

// lifeCycle implements the engine's part of package rootfs.
type lifeCycle struct{ engine *Engine }

// EachAway implements [rootfs.Sandboxes].
func (l lifeCycle) EachAway(do func(*spec.Sandbox) error) error {
	return l.engine.eachAway(func(r *record) error { return do(r.Sandbox) })
}

// WithSavedLayer implements [rootfs.Sandboxes].
func (l lifeCycle) WithSavedLayer(ctx context.Context, sb *spec.Sandbox, do func() error) error {
	return l.engine.Keepers().Tell(ctx, sb, func(_ context.Context, c *unixconn.Conn) error {
		defer c.Close()
		if err := keeperclient.AskToSave(c); err != nil {
			return err
		}
		return do()
	}, func() error {
		if err := l.engine.Whole(sb); err != nil {
			return err
		}
		return do()
	})
}

// WithRunningLayer implements [rootfs.Sandboxes].
func (l lifeCycle) WithRunningLayer(ctx context.Context, sb *spec.Sandbox, do func() error) error {
	return l.engine.Keepers().TellWithin(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		if err := keeperclient.AskToSave(c); err != nil {
			return err
		}
		return do()
	}, func() error { return spec.Errorf(spec.ErrSandbox, "sandbox %s ended", sb.Name) })
}

// StripHome implements [rootfs.Sandboxes].
func (l lifeCycle) StripHome(sb *spec.Sandbox, home *os.Root) error { return l.engine.strip(sb, home) }

// Failure implements [rootfs.Sandboxes].
func (l lifeCycle) Failure(op string, sb *spec.Sandbox, err error) error {
	return l.engine.Keepers().OpError(op, sb, err)
}

// Seal implements [rootfs.Sealer].
func (l lifeCycle) Seal(to io.Writer, write func(io.Writer) error) error {
	return l.engine.SealFile(to, write)
}

// Open implements [rootfs.Sealer].
func (l lifeCycle) Open(from io.Reader) (io.Reader, error) { return l.engine.OpenSealed(from) }
