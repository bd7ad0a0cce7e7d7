// Package prestart collects what the keeper of a sandbox must know at its start, and refuses a start that
// would go wrong.
package prestart

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bothy-dev/bothy/internal/agenthome"
	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/hostdirs"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Preparation prepares starts of the sandboxes in one state directory.
type Preparation struct {
	Keepers     keeperclient.Keepers
	Version     string // of this binary
	Defaults    spec.Limits
	SaveEvery   spec.Duration // see [launch.Settings]
	Prices      []price.Price
	Credentials *credential.Broker
	Programs    *agentprogram.Programs
	Images      *rootfs.Images
	Rules       netrules.Rules
	Homes       agenthome.Homes
	Directories hostdirs.Directories
}

// Settings collects the data that the keeper must be told, all but the loans and the settings of git.
func (p Preparation) Settings(ctx context.Context, sb *spec.Sandbox, group string, limits []spec.Enforcement) (launch.Settings, error) {
	me, most := caller(), sb.Limits.WithDefaults(p.Defaults)
	l := launch.Settings{
		Version: p.Version, Cache: p.Keepers.Store.Cache(), Rules: p.Keepers.Store.Policy(), Models: append(vault.ModelHosts(), vault.CountedHosts()...), Servers: serversOf(sb), Own: ownServer(sb), Prices: p.Prices,
		User: me.name, Home: me.home, Shell: me.shell,
		Cgroup: group, Limits: limits,
		Memory: most.Memory, CPUs: most.CPUs, Pids: most.Pids, Disk: most.Disk,
		SaveEvery: p.SaveEvery,
	}
	if sb.Tasks != "" {
		l.Tasks = p.Keepers.Store.Tasks()
	}
	if sb.Loop != "" {
		l.Runs = p.Keepers.Store.Runs()
	}
	disk := "sentry and keeper" // the root layer, and everything on the disk
	if sb.Build != nil {
		disk = "sentry"
	}
	for _, x := range []struct {
		name, by string
		n        int64
	}{{spec.LimitPids, "sentry", l.Pids}, {spec.LimitDisk, disk, l.Disk}} {
		if x.n > 0 {
			l.Limits = append(l.Limits, spec.Enforcement{Limit: x.name, Value: inUnits(x.n), Enforced: true, By: x.by})
		}
	}
	p.addWayOut(sb, &l)
	l.KnownHosts = knownHosts()
	if how, _ := p.Credentials.LoginInside(sb); how != nil { // ForStart tells the user of an error
		l.Login = &launch.Login{Agent: sb.Agent, How: *how, Vault: p.Keepers.Store.Secrets()}
	}
	dirs, err := p.Programs.Dirs(sb)
	if err != nil {
		return l, err
	}
	l.Program, l.Runtime, l.Adapter = dirs.Program, dirs.Runtime, dirs.Adapter
	if l.Policy, err = p.Rules.Encoded(sb); err != nil {
		return l, err
	}
	if l.Image, err = p.Images.Root(ctx, sb); err != nil {
		return l, err
	}
	if l.Image != nil {
		l.ImageFile, me.home = l.Image.File(), l.Image.Account.Home
		files := rootfs.Files{Sandbox: sb, Root: *l.Image}
		l.Zones = files.Has("/usr/share/zoneinfo/Etc")
	}
	if err := p.Directories.CheckStart(sb); err != nil {
		return l, err
	}
	if l.Mounted, err = p.Directories.FindMounted(ctx, sb); err != nil {
		return l, err
	}
	if err := p.Directories.CheckReviewed(sb, l.Mounted); err != nil {
		return l, err
	}
	l.Config = p.Homes.Config(sb, me.home)
	rules := workspace.Rules{State: p.Keepers.Store.Path()}
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes, l.Config) {
		if sb.Clones(m) { // nothing of the host is in it
			continue
		}
		hidden := rules.HiddenNames(m)
		if !sb.Reviews(m) {
			if hidden, err = rules.Hidden(m); err != nil {
				return l, err
			}
		}
		l.Hidden = append(l.Hidden, hidden...)
	}
	return l, nil
}

// knownHosts returns the files in which the host's ssh looks for the keys of servers.
func knownHosts() []string {
	list := []string{"/etc/ssh/ssh_known_hosts"}
	if home, err := store.Home(); err == nil {
		list = append(list, filepath.Join(home, ".ssh/known_hosts"), filepath.Join(home, ".ssh/known_hosts2"))
	}
	return list
}

// inUnits formats a number as flags accept it.
func inUnits(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "g"}, {1 << 20, "m"}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return fmt.Sprint(n)
}
