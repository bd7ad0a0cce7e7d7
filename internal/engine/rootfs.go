package engine

import (
	"context"
	"os"

	"github.com/bothy-dev/bothy/internal/agenthome"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/away"
	"github.com/bothy-dev/bothy/internal/hostdirs"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/ownerkey"
	"github.com/bothy-dev/bothy/internal/prestart"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Images returns the container images of the state directory.
func (e *Engine) Images() *rootfs.Images {
	return &rootfs.Images{Store: e.Store, Room: rootfs.Room{Store: e.Store, Limit: e.StoreLimit}, Sandboxes: lifeCycle{e}, Held: &e.hold, Say: e.Say}
}

// Templates returns the templates that were made from sandboxes.
func (e *Engine) Templates() *rootfs.Templates {
	return &rootfs.Templates{Images: e.Images(), Sealer: e.OwnerKey()}
}

// Programs returns the programs of agents that sandboxes can run.
func (e *Engine) Programs() *agentprogram.Programs {
	return &agentprogram.Programs{
		Store: e.Store, Agents: e.Agents, Images: e.Images(),
		EachAway: lifeCycle{e}.EachAway, Home: prestart.CallerHome,
	}
}

// Builds returns the builds of images, and the cache of their steps.
func (e *Engine) Builds() *rootfs.Builds { return &rootfs.Builds{Images: e.Images()} }

// Disk returns the accounts of the state directory's disk.
func (e *Engine) Disk() *rootfs.Disk {
	return &rootfs.Disk{Images: e.Images(), Builds: e.Builds(), Sandboxes: diskSandboxes{e}.listItems, Agents: e.Programs().ListDisk}
}

// OwnerKey seals exported files.
func (e *Engine) OwnerKey() ownerkey.Owner { return ownerkey.Owner{Keepers: e.Keepers()} }

// Rules are the rules by which sandboxes reach the network.
func (e *Engine) Rules() netrules.Rules { return netrules.Rules{Keepers: e.Keepers()} }

// Directories are the directories of the host that sandboxes work on.
func (e *Engine) Directories() hostdirs.Directories {
	return hostdirs.Directories{Keepers: e.Keepers()}
}

// Homes are the homes of the sandboxes.
func (e *Engine) Homes() agenthome.Homes {
	return agenthome.Homes{Keepers: e.Keepers(), Agents: e.Agents, Lent: e.Credentials(), Rules: e.Rules()}
}

// preparation prepares starts.
func (e *Engine) preparation() prestart.Preparation {
	return prestart.Preparation{
		Keepers: e.Keepers(), Version: e.Version, Defaults: e.Defaults, SaveEvery: e.SaveEvery, Prices: e.Prices, Credentials: e.Credentials(),
		Programs: e.Programs(), Images: e.Images(), Rules: e.Rules(), Homes: e.Homes(), Directories: e.Directories(),
	}
}

// CheckRoom returns an error if the state directory takes more of the disk than it may.
func (e *Engine) CheckRoom() error { return e.Images().Room.Check() }

// lifeCycle implements the engine's part of package rootfs.
type lifeCycle struct{ engine *Engine }

// EachAway implements [rootfs.Sandboxes].
func (l lifeCycle) EachAway(do func(*spec.Sandbox) error) error {
	return l.engine.Away().Each(func(r *away.Record) error { return do(r.Sandbox) })
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
func (l lifeCycle) StripHome(sb *spec.Sandbox, home *os.Root) error {
	return l.engine.Homes().Strip(sb, home)
}

// Failure implements [rootfs.Sandboxes].
func (l lifeCycle) Failure(op string, sb *spec.Sandbox, err error) error {
	return l.engine.Keepers().OpError(op, sb, err)
}
