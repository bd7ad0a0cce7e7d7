package keeper

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
	"github.com/bothy-dev/bothy/internal/keeper/worktrees"
	"github.com/bothy-dev/bothy/internal/nsproc"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// openFiles bounds the open files of one process inside.
const openFiles = 65536

// machine assembles what the wall is built from, all of it in this process's
// own mount namespace: nothing needs undoing when it dies.
func (k *Keeper) machine() (driver.Machine, error) {
	scratch := k.dir.Scratch()
	if err := privateTmpfs(scratch); err != nil {
		return driver.Machine{}, err
	}
	uid, gid := os.Geteuid(), os.Getegid()
	k.account = wire.Account{Name: k.launch.User, UID: uid, GID: gid, Home: k.launch.Home, Shell: k.launch.Shell}
	if i := k.launch.Image; i != nil {
		a := i.Account
		k.account = wire.Account{Name: a.Name, UID: a.UID, GID: a.GID, Groups: a.Groups, Home: a.Home, Shell: a.Shell}
	}

	mounts, err := k.mounts(scratch)
	if err != nil {
		return driver.Machine{}, err
	}
	for _, m := range mounts {
		k.places = append(k.places, wire.Place{Path: m.Target, Own: m.Memory || m.Exclusive && !m.ReadOnly})
	}
	if k.spec.Build == nil {
		k.worktrees = worktrees.Search(mounts, k.places, k.log, k.event)
	}
	root := filepath.Join(scratch, "root")
	if err := k.assemble(root, mounts); err != nil {
		return driver.Machine{}, err
	}
	// First: where the root is an image, what is mounted in it later must not be
	// covered by it.
	mounts = append([]driver.Mount{ownPrograms(root)}, mounts...)
	run := filepath.Join(scratch, "wall")
	if err := os.Mkdir(run, 0o700); err != nil {
		return driver.Machine{}, err
	}
	panicLog, err := os.OpenFile(k.dir.Log("panic.log"), os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return driver.Machine{}, err
	}
	panicLog.Close()
	restore, err := k.layers.Current()
	if err != nil {
		return driver.Machine{}, fmt.Errorf("find the root layer: %w", err)
	}
	limit, err := k.disk.LayerLimit(restore)
	if err != nil {
		return driver.Machine{}, err
	}
	m := driver.Machine{
		ID: k.spec.ID, Hostname: k.spec.Name,
		Scratch: run, Root: root, Image: k.launch.ImageFile, Overlay: k.dir.Layers(), RootLimit: limit, Restore: restore,
		CheckLayer: k.crashed, Mounts: mounts, UID: uid, GID: gid,
		Init:  []string{guest.Path, guest.InitName, strconv.FormatInt(k.launch.Pids, 10), strconv.FormatBool(restore != ""), k.dockerWish()},
		Env:   []string{"PATH=/usr/bin:/bin", "GOGC=50", "GOMAXPROCS=2"},
		Files: openFiles, ShownMemory: k.launch.Memory, ShownCPUs: k.launch.CPUs,
		PanicLog: panicLog.Name(), Starter: k.launch.Guest, Build: k.launch.Build,
	}
	if k.memory == nil {
		return m, nil
	}
	if err := k.memory.installed(k.launch); err != nil {
		return m, err
	}
	return m, k.memory.fit(&m, k.launch.GoOn)
}

// sameBuild refuses to go on if a program was replaced since the engine looked at it.
func (k *Keeper) sameBuild(root string) error {
	build, err := driver.Build("/proc/self/exe", filepath.Join(root, hostroot.Own, "guest"))
	if err != nil {
		return err
	}
	if build != k.launch.Build {
		return spec.Errorf(spec.ErrConflict, "the programs of bothy were replaced while it started").
			WithHint("run the command again")
	}
	return nil
}

// ownPrograms shows Bothy's own directory of the tree once more, as a mount:
// what root inside does to the root layer is kept, and must not keep init from
// starting.
func ownPrograms(root string) driver.Mount {
	return driver.Mount{
		Source: filepath.Join(root, hostroot.Own), Target: "/" + hostroot.Own, ReadOnly: true, Exclusive: true,
	}
}

// privateTmpfs gives the keeper a place for run-time files that only its own
// mount namespace sees.
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
func (k *Keeper) assemble(root string, mounts []driver.Mount) error {
	user := hostroot.User{Name: k.account.Name, UID: k.account.UID, GID: k.account.GID, Home: k.account.Home, Shell: k.account.Shell}
	host, err := hostroot.Prepare(k.launch.Cache, user)
	if err != nil {
		return fmt.Errorf("prepare template %s: %w", k.spec.Template, err)
	}
	var targets []hostroot.Target
	for i, m := range mounts {
		if below(mounts[:i], m.Target) || m.Target == hostroot.SharedMemory || m.Target == hostroot.Agent || m.Target == hostroot.Runtime || k.spec.Build != nil {
			continue // its mount point is there, or lies in another mount
		}
		targets = append(targets, hostroot.Target{Path: m.Target, Dir: m.Memory || isDir(m.Source)})
	}
	programs := map[string]string{}
	for _, p := range k.installed() {
		programs[p.Name] = path.Join(p.target, p.Binary)
	}
	state, err := filepath.EvalSymlinks(filepath.Dir(filepath.Dir(k.dir.Dir)))
	if err != nil {
		return fmt.Errorf("find the state directory: %w", err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	assemble := host.Assemble
	if k.launch.Image != nil {
		assemble = host.AssembleOwn
	}
	err = assemble(root, hostroot.Options{
		ID: k.spec.ID, Hostname: k.spec.Name, User: user, Program: k.launch.Guest, Targets: targets, Programs: programs, Build: k.spec.Build != nil, Disowned: k.launch.Programs,
		Hidden:      state,
		NameServers: []netip.Addr{namepool.Gateway4},
		GitConfig:   k.launch.Git,
		GitIgnore:   k.launch.GitIgnore,
		Authorities: k.launch.LocalAuthorities,
	})
	if err != nil {
		return fmt.Errorf("assemble template %s: %w", k.spec.Template, err)
	}
	if err := k.sameBuild(root); err != nil {
		return err
	}
	if err := k.makeStages(root, mounts); err != nil {
		return err
	}
	k.status.Note(func(st *spec.Status) { st.Gaps = host.Gaps() })
	k.trust = host.Trust
	k.javaServed = host.Java()
	return nil
}
