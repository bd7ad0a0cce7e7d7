package keeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/nsproc"
	"github.com/bothy-dev/bothy/internal/template"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// openFiles bounds the open files of one process inside.
const openFiles = 65536

// machine assembles what the wall is built from, all of it in this process's
// own mount namespace: nothing needs undoing when it dies.
func (k *Keeper) machine(layers layer.Store) (driver.Machine, error) {
	scratch := k.dir.Scratch()
	if err := privateTmpfs(scratch); err != nil {
		return driver.Machine{}, err
	}
	uid, gid := os.Geteuid(), os.Getegid()
	k.account = wire.Account{Name: k.launch.User, UID: uid, GID: gid, Home: k.launch.Home, Shell: k.launch.Shell}

	mounts, err := k.mounts(scratch)
	if err != nil {
		return driver.Machine{}, err
	}
	root := filepath.Join(scratch, "root")
	if err := k.assemble(root, mounts); err != nil {
		return driver.Machine{}, err
	}
	run := filepath.Join(scratch, "wall")
	if err := os.Mkdir(run, 0o700); err != nil {
		return driver.Machine{}, err
	}
	restore, err := layers.Current()
	if err != nil {
		return driver.Machine{}, fmt.Errorf("find the root layer: %w", err)
	}
	return driver.Machine{
		ID: k.spec.ID, Hostname: k.spec.Name,
		Scratch: run, Root: root, Overlay: k.dir.Layers(), RootLimit: k.launch.Disk, Restore: restore,
		Mounts: mounts, UID: uid, GID: gid,
		Init:     []string{guest.Path, guest.InitName, strconv.FormatInt(k.launch.Pids, 10)},
		Env:      []string{"PATH=/usr/bin:/bin", "GOGC=50", "GOMAXPROCS=2"},
		Files:    openFiles,
		PanicLog: k.dir.Log("panic.log"),
	}, nil
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
	user := template.User{Name: k.account.Name, UID: k.account.UID, GID: k.account.GID, Home: k.account.Home, Shell: k.account.Shell}
	cache := filepath.Join(k.launch.State, "cache")
	host, err := template.Prepare(cache, user)
	if err != nil {
		return fmt.Errorf("prepare template %s: %w", k.spec.Template, err)
	}
	var targets []template.Target
	for i, m := range mounts {
		if below(mounts[:i], m.Target) {
			continue // its mount point lies in another mount, and is there
		}
		targets = append(targets, template.Target{Path: m.Target, Dir: m.Memory || isDir(m.Source)})
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	err = host.Assemble(root, template.Options{
		ID: k.spec.ID, Hostname: k.spec.Name, User: user, Program: "/proc/self/exe", Targets: targets,
	})
	if err != nil {
		return fmt.Errorf("assemble template %s: %w", k.spec.Template, err)
	}
	k.status.st.Gaps = host.Gaps()
	return nil
}

// mounts lists what lies over the root, outer ones first, and makes the mount
// points that lie in the sandbox's own home.
func (k *Keeper) mounts(scratch string) ([]driver.Mount, error) {
	empty := filepath.Join(scratch, "empty")
	if err := os.Mkdir(empty, 0o555); err != nil {
		return nil, err
	}
	list := []driver.Mount{
		{Target: "/tmp", Memory: true, Mode: 0o1777},
		{Source: k.dir.Home(), Target: k.account.Home, Exclusive: true},
	}
	for i, m := range append(slices.Clone(k.spec.Workspaces), k.spec.Volumes...) {
		source, err := k.pin(m.Source, filepath.Join(scratch, "mnt", strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		list = append(list, k.anchors(m, source)...)
		if m.Target == k.account.Home { // a forced workspace replaces the home
			list = slices.DeleteFunc(list, func(d driver.Mount) bool { return d.Target == m.Target })
		}
		list = append(list, driver.Mount{Source: source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	for _, h := range k.launch.Hidden {
		list = append(list, driver.Mount{Source: empty, Target: h, ReadOnly: true, Exclusive: true})
	}
	slices.SortStableFunc(list, func(a, b driver.Mount) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	return list, k.makeHomePoints(list)
}

// pin makes a directory or file of the host appear at a place of ours, and
// gives that place. The path was real when the sandbox was created; somebody
// who can write to a directory above it, another sandbox for instance, may have
// put a symbolic link in its way since. None is followed, and what was opened
// is what is mounted.
func (k *Keeper) pin(source, at string) (string, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, source, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	switch {
	case errors.Is(err, unix.ELOOP):
		return "", spec.Errorf(spec.ErrDenied, "%s has a symbolic link in its path now, which it had not when the sandbox was created", source).
			WithHint("put the directory back, or remove the sandbox: bothy rm %s", k.spec.Name)
	case err != nil:
		return "", spec.Errorf(spec.ErrNotFound, "workspace %s: %w", source, err).
			WithHint("put it back, or remove the sandbox: bothy rm %s", k.spec.Name)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		err = os.MkdirAll(at, 0o700)
	case unix.S_IFREG:
		if err = os.MkdirAll(filepath.Dir(at), 0o700); err == nil {
			err = os.WriteFile(at, nil, 0o600)
		}
	default:
		return "", spec.Errorf(spec.ErrDenied, "%s is neither a directory nor a regular file any more", source)
	}
	if err != nil {
		return "", err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return "", fmt.Errorf("mount %s: %w", source, err)
	}
	return at, nil
}

// anchors are mounts of directories onto themselves, for those between a
// shared directory and something hidden below it: a mount point cannot be
// renamed, so that the inside cannot move away what lies above the hidden.
func (k *Keeper) anchors(m spec.Mount, source string) []driver.Mount {
	var list []driver.Mount
	for _, h := range k.launch.Hidden {
		rel, err := filepath.Rel(m.Target, h)
		if err != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		for d := filepath.Dir(rel); d != "."; d = filepath.Dir(d) {
			a := driver.Mount{Source: filepath.Join(source, d), Target: filepath.Join(m.Target, d), ReadOnly: m.ReadOnly}
			if !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	return list
}

// makeHomePoints makes mount points inside the sandbox's own home, which is a
// directory of ours. In a workspace nothing is ever made.
func (k *Keeper) makeHomePoints(list []driver.Mount) error {
	home, err := os.OpenRoot(k.dir.Home())
	if err != nil {
		return err
	}
	defer home.Close()
	for i, m := range list {
		outer, ok := innermost(list[:i], m.Target)
		if !ok || outer.Memory && outer.Target == "/tmp" {
			continue
		}
		rel, err := filepath.Rel(outer.Target, m.Target)
		if err != nil {
			return err
		}
		if outer.Source == k.dir.Home() {
			if err := makePoint(home, rel, isDir(m.Source)); err != nil {
				return fmt.Errorf("make mount point %s: %w", m.Target, err)
			}
			continue
		}
		if _, err := os.Lstat(filepath.Join(outer.Source, rel)); err != nil {
			return spec.Errorf(spec.ErrUsage, "mount point %s does not exist in %s", m.Target, outer.Source).
				WithHint("create it, or mount somewhere else")
		}
	}
	return nil
}

func makePoint(root *os.Root, rel string, dir bool) error {
	if dir {
		return root.MkdirAll(rel, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(rel, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// innermost finds the deepest of the mounts that target lies below.
func innermost(list []driver.Mount, target string) (driver.Mount, bool) {
	var best driver.Mount
	for _, m := range list {
		if strings.HasPrefix(target, strings.TrimSuffix(m.Target, "/")+"/") && len(m.Target) > len(best.Target) {
			best = m
		}
	}
	return best, best.Target != ""
}

func below(list []driver.Mount, target string) bool {
	_, ok := innermost(list, target)
	return ok
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
