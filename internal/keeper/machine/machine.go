// Package machine assembles the parts that the wall of a sandbox is built from: the root tree, the
// mounts over it, and the mounts that init attaches.
package machine

import (
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/nsproc"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// openFiles bounds the open files of one process inside.
const openFiles = 65536

// Builder assembles the parts of the wall, all in this process's own mount namespace: nothing needs
// undoing when the process dies.
type Builder struct {
	Options
	account wire.Account      // see Account
	attach  []wire.Attachment // mounts that init makes
	host    *hostroot.Host
}

// Options describe the sandbox.
type Options struct {
	Spec   *spec.Sandbox
	Dir    store.Sandbox
	Layers layer.Store
	Launch *launch.Settings
	Limits layerLimits // of the root layer and of Docker's files
	// CheckLayer makes the builder check the saved root layer.
	CheckLayer bool
	// Event writes an event of the sandbox.
	Event func(kind string, fields map[string]any)
}

// layerLimits knows how large a root layer may become.
type layerLimits interface {
	// LayerLimit returns the limit in bytes for a layer that starts from a save; saved is empty
	// without one.
	LayerLimit(saved string) (int64, error)
}

// Built is the result of a builder: the parts of the wall, and the facts that it learned of the host.
type Built struct {
	driver.Machine
	Attach []wire.Attachment                     // mounts that init makes
	Trust  func(certificate, known []byte) error // makes the inside trust an authority, and ssh its hosts
	Java   bool                                  // the host's Java finds the sandbox's authority by itself
	Gaps   []string                              // parts of the host that are missing inside
}

// New makes a builder of a sandbox's machine.
func New(o Options) *Builder {
	return &Builder{Options: o, account: Account(o.Launch)}
}

// Account returns the account that commands run as by default.
func Account(l *launch.Settings) wire.Account {
	if i := l.Image; i != nil {
		a := i.Account
		return wire.Account{Name: a.Name, UID: a.UID, GID: a.GID, Groups: a.Groups, Home: a.Home, Shell: a.Shell}
	}
	return wire.Account{Name: l.User, UID: os.Geteuid(), GID: os.Getegid(), Home: l.Home, Shell: l.Shell}
}

// Mounts makes a place for run-time files, and lists the mounts over the root.
func (b *Builder) Mounts() ([]driver.Mount, error) {
	scratch := b.Dir.Scratch()
	if err := privateTmpfs(scratch); err != nil {
		return nil, err
	}
	return b.listMounts(scratch)
}

// Places describes mounts to init.
func Places(mounts []driver.Mount) (list []wire.Place) {
	for _, m := range mounts {
		list = append(list, wire.Place{Path: m.Target, Own: m.Memory || m.Exclusive && !m.ReadOnly})
	}
	return list
}

// Build assembles the root tree with its mounts.
func (b *Builder) Build(mounts []driver.Mount) (Built, error) {
	scratch := b.Dir.Scratch()
	root := filepath.Join(scratch, "root")
	if err := b.assemble(root, mounts); err != nil {
		return Built{}, err
	}
	m, err := b.describe(root, mounts)
	return Built{Machine: m, Attach: b.attach, Trust: b.host.Trust, Java: b.host.Java(), Gaps: b.host.Gaps()}, err
}

// describe describes the wall of an assembled tree.
func (b *Builder) describe(root string, mounts []driver.Mount) (driver.Machine, error) {
	// This mount comes first: if the root is an image, it must not cover later mounts.
	mounts = append([]driver.Mount{ownPrograms(root)}, mounts...)
	run := filepath.Join(b.Dir.Scratch(), "wall")
	if err := os.Mkdir(run, 0o700); err != nil {
		return driver.Machine{}, err
	}
	panicLog, err := os.OpenFile(b.Dir.Log("panic.log"), os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return driver.Machine{}, err
	}
	panicLog.Close()
	restore, err := b.Layers.Current()
	if err != nil {
		return driver.Machine{}, fmt.Errorf("find the root layer: %w", err)
	}
	limit, err := b.Limits.LayerLimit(restore)
	if err != nil {
		return driver.Machine{}, err
	}
	return driver.Machine{
		ID: b.Spec.ID, Hostname: b.Spec.Name,
		HostPaths: driver.HostPaths{
			Scratch: run, Root: root, Image: b.Launch.ImageFile, Overlay: b.Dir.Layers(), Restore: restore,
			Starter: b.Launch.Guest, PanicLog: panicLog.Name(),
		},
		RootLimit: limit, CheckLayer: b.CheckLayer, Mounts: mounts, UID: os.Geteuid(), GID: os.Getegid(),
		Init:  []string{guest.Path, guest.InitName, strconv.FormatInt(b.Launch.Pids, 10), strconv.FormatBool(restore != ""), b.dockerWish()},
		Env:   []string{"PATH=/usr/bin:/bin", "GOGC=50", "GOMAXPROCS=2"},
		Files: openFiles, ShownMemory: b.Launch.Memory, ShownCPUs: b.Launch.CPUs,
		Build: b.Launch.Build,
	}, nil
}

// sameBuild returns an error if a program was replaced since the engine looked at it.
func (b *Builder) sameBuild(root string) error {
	build, err := driver.Build("/proc/self/exe", filepath.Join(root, hostroot.Own, "guest"))
	if err != nil {
		return err
	}
	if build != b.Launch.Build {
		return spec.Errorf(spec.ErrConflict, "the programs of bothy were replaced while it started").
			WithHint("run the command again")
	}
	return nil
}

// ownPrograms mounts Bothy's own directory of the tree over itself. Changes that root inside makes in
// the root layer are kept, and must not keep init from starting.
func ownPrograms(root string) driver.Mount {
	return driver.Mount{
		Source: filepath.Join(root, hostroot.Own), Target: "/" + hostroot.Own, ReadOnly: true, Exclusive: true,
	}
}

// privateTmpfs makes a directory for run-time files that only the keeper's own mount namespace sees.
func privateTmpfs(dir string) error {
	if err := nsproc.Enter(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("bothy", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64m"); err != nil {
		return fmt.Errorf("mount a private file system: %w", err)
	}
	return nil
}

// assemble builds the root tree with a mount point for every mount.
func (b *Builder) assemble(root string, mounts []driver.Mount) error {
	user := hostroot.User{Name: b.account.Name, UID: b.account.UID, GID: b.account.GID, Home: b.account.Home, Shell: b.account.Shell}
	host, err := hostroot.Prepare(b.Launch.Cache, user)
	if err != nil {
		return fmt.Errorf("prepare template %s: %w", b.Spec.Template, err)
	}
	var targets []hostroot.Target
	for i, m := range mounts {
		if isBelow(mounts[:i], m.Target) || m.Target == hostroot.SharedMemory || m.Target == hostroot.Agent || m.Target == hostroot.Runtime || m.Target == hostroot.Adapter || b.Spec.Build != nil {
			continue // its mount point exists, or is in another mount
		}
		targets = append(targets, hostroot.Target{Path: m.Target, Dir: m.Memory || isDirectory(m.Source)})
	}
	programs := map[string]string{}
	for _, p := range b.installed() {
		if p.named {
			programs[p.Name] = path.Join(p.target, p.Binary)
		}
	}
	state, err := filepath.EvalSymlinks(filepath.Dir(filepath.Dir(b.Dir.Dir)))
	if err != nil {
		return fmt.Errorf("find the state directory: %w", err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	assemble := host.Assemble
	if b.Launch.Image != nil {
		assemble = host.AssembleOwn
	}
	err = assemble(root, hostroot.Options{
		ID: b.Spec.ID, Hostname: b.Spec.Name, User: user, Program: b.Launch.Guest, Targets: targets, Programs: programs, Build: b.Spec.Build != nil, Disowned: b.Launch.Programs,
		Hidden:      state,
		NameServers: []netip.Addr{namepool.Gateway4},
		GitConfig:   b.Launch.Git,
		GitIgnore:   b.Launch.GitIgnore,
		Authorities: b.Launch.LocalAuthorities,
	})
	if err != nil {
		return fmt.Errorf("assemble template %s: %w", b.Spec.Template, err)
	}
	if err := b.sameBuild(root); err != nil {
		return err
	}
	if err := b.makeStages(root, mounts); err != nil {
		return err
	}
	b.host = host
	return nil
}
