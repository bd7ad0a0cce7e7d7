package hostroot

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/spec"
)

// Options describe one sandbox's tree.
type Options struct {
	ID       string // of the sandbox; its machine-id is derived from it
	Hostname string
	// User is the user that the sandbox works for. Default: the one given to Prepare.
	User User
	// Program is the host path of the program that plays init and sudo inside.
	Program string
	// Targets are the mount points that the driver needs besides the user's home, /proc, /sys, /dev,
	// /run and /tmp.
	Targets []Target
	// Programs are further programs that are found by name. Inside, each name is a link to the absolute
	// path.
	Programs map[string]string
	// Build adds the mount points for the steps of a build.
	Build bool
	// Disowned is the directory that was passed to Disown. It is empty if Disown was not called.
	Disowned string
	// Hidden is a directory of the host, its path without links, that is never shown, wherever it is.
	// Empty hides nothing.
	Hidden string
	// NameServers are the network's name servers. Without a network there are none.
	NameServers []netip.Addr
	// GitConfig and GitIgnore are the user's settings for git inside: see [GitConfigPath].
	GitConfig, GitIgnore []byte
	// Authorities are trusted inside in addition to the public ones. They are in PEM.
	Authorities []byte
}

// Target is a mount point inside.
type Target struct {
	Path string // absolute and clean
	Dir  bool   // else a file
}

// Own is our directory inside. It holds guest, which is the program; bin/sudo, a link to it; the
// authorities that TLS clients trust; and the files that cover files of /etc and the package databases.
const Own = ".bothy"

// Agent is the mount point for an agent's installation.
const Agent = "/" + Own + "/agent"

// Runtime is the mount point for an installation of the agent's runtime.
const Runtime = "/" + Own + "/runtime"

// Adapter is the mount point for an installation that speaks with editors for the agent.
const Adapter = "/" + Own + "/adapter"

// OwnEtcPath is the directory of files that are generated for each sandbox.
const OwnEtcPath = "/" + Own + "/etc"

// Files in that directory that git reads.
const (
	GitConfigPath = OwnEtcPath + "/gitconfig"
	GitIgnorePath = OwnEtcPath + "/gitignore"
)

// Path is the PATH by which programs of the host are found inside.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// SearchPathVariable holds the first PATH of programs inside, for login shells: the profile of some
// distributions sets another.
const SearchPathVariable = "BOTHY_PATH"

// Visible reports whether a file of the host, its path without links, is visible inside.
func Visible(file string) bool {
	return slices.ContainsFunc(programs, func(p struct{ path, why string }) bool { return strings.HasPrefix(file, p.path+"/") })
}

// skeleton lists the directories of every tree, parents first. Packages of the usual distributions
// expect those of var and run.
var skeleton = []struct {
	mode uint32
	dirs string
}{
	{0o755, "proc sys dev run home mnt media srv root opt usr etc boot var"},
	{0o755, "var/backups var/cache var/cache/apt var/cache/apt/archives var/cache/apt/archives/partial var/cache/debconf var/cache/ldconfig var/cache/man"},
	{0o755, "var/empty var/lib var/lib/apt var/lib/apt/lists var/lib/apt/lists/partial var/lib/apt/mirrors var/lib/apt/mirrors/partial var/lib/apt/periodic"},
	{0o755, "var/lib/dpkg var/lib/misc var/local var/log var/log/apt var/mail var/opt var/spool run/user"},
	{0o1777, "tmp var/tmp run/lock"},
	{0o755, Own + " " + Own + "/bin " + Own + "/tasks " + Own + "/loop " + Own + "/etc " + Own + "/empty " + Agent[1:] + " " + Runtime[1:] + " " + Adapter[1:] + " " + trust.Dir[1:]},
}

// skeletonLinks are the links of that tree.
var skeletonLinks = []struct{ name, target string }{
	{"var/run", "/run"},
	{"var/lock", "/run/lock"},
	{Own + "/bin/sudo", "../guest"},
	{Own + "/tasks/bd", "../guest"}, // in a directory of its own: the template may have a program of that name
	{Own + "/loop/ralph", "../guest"},
}

// programs is the allow-list: the host's paths that are visible inside, if they are directories. A link
// is copied as a link if it leads to one of these.
var programs = []struct{ path, why string }{
	{"/usr", "the distribution's programs"},
	{"/bin", "the same, where /usr was not merged"},
	{"/sbin", "the same"},
	{"/lib", "the same"},
	{"/lib32", "the same"},
	{"/lib64", "the same"},
	{"/libx32", "the same"},
	{"/opt", "programs of other vendors"},
	{"/nix/store", "programs of Nix; its database and its daemon's socket are elsewhere"},
	{"/nix/var/nix/profiles", "links into the store"},
	{"/snap", "programs of snapd"},
}

// databases are the package managers' records of those programs. cover lists the paths below them that
// only root or another account may use on the host: locks and work directories, which must be empty
// inside.
var databases = []struct {
	path  string
	cover []string
}{
	{"/var/lib/dpkg", []string{"lock", "lock-frontend", "triggers/Lock"}},
	{"/var/lib/apt", []string{"lists/lock", "lists/partial", "mirrors/partial"}},
	{"/var/lib/rpm", []string{".rpm.lock"}},
	{"/var/lib/pacman", []string{"db.lck"}},
}

// Assemble builds the tree in dir, an empty directory in a tmpfs that only this mount namespace sees.
// After an error the tree is useless, and nothing else was changed.
//
// Everything in the tree that comes from the host is read-only. Each target has a mount point, except
// below the user's home and below other targets: the mount above it brings its own directories. A target
// that cannot have a mount point is a spec.ErrUsage.
func (h *Host) Assemble(dir string, o Options) error {
	plant := func(root int) (*tree, error) { return newTree(dir, root, h.mounts) }
	return h.assemble(dir, &o, plant, func(t *tree) error {
		for _, step := range []func() error{
			func() error { return h.bindPrograms(t) },
			func() error { return h.openClosed(t) },
			func() error { return h.bindDatabases(t) },
			func() error { return h.bindEtc(t, &o) },
			func() error { return h.bindTrust(t, o.Authorities) },
			func() error { return t.hideDir(o.Hidden) },
			func() error { return t.mountPoints(o.User.Home, o.Targets) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

// assemble builds the common parts of every tree. plant makes its root, and fill adds the rest.
func (h *Host) assemble(dir string, o *Options, plant func(root int) (*tree, error), fill func(*tree) error) error {
	o.User = cmp.Or(o.User, h.user)
	if err := o.checkOptions(); err != nil {
		return err
	}
	root, err := openEmpty(dir)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	t, err := plant(root)
	if err != nil {
		return err
	}
	h.gaps, h.disowned = nil, o.Disowned
	if err := t.bindProgram(o.Program); err != nil {
		return err
	}
	for path, content := range map[string][]byte{GitConfigPath: o.GitConfig, GitIgnorePath: o.GitIgnore} {
		if err := t.writeFile(path[1:], content, 0o644); err != nil {
			return err
		}
	}
	for name, target := range o.Programs {
		if err := t.makeLink(Own+"/bin/"+name, target); err != nil {
			return err
		}
	}
	return fill(t)
}

func (o *Options) checkOptions() error {
	if err := o.User.checkUser(); err != nil {
		return err
	}
	if err := checkHostname(o.Hostname); err != nil {
		return err
	}
	for name, target := range o.Programs {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || !filepath.IsAbs(target) {
			return spec.Errorf(spec.ErrUsage, "%q cannot be the name of a program", name)
		}
	}
	for _, t := range append([]Target{{Path: o.User.Home, Dir: true}}, o.Targets...) {
		if err := t.checkTarget(); err != nil {
			return err
		}
	}
	return nil
}

// openEmpty opens the directory of the tree. It refuses places where a mistake would reach the host.
func openEmpty(dir string) (int, error) {
	if !ownNamespace() {
		return -1, spec.Errorf(spec.ErrSandbox, "assemble a root outside a user namespace of the keeper's own")
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	var fs unix.Statfs_t
	err = unix.Fstatfs(fd, &fs)
	if err == nil && fs.Type != unix.TMPFS_MAGIC {
		err = errors.New("not in a tmpfs")
	}
	if err == nil {
		err = unix.Fchmod(fd, 0o755)
	}
	if err == nil {
		err = checkEmpty(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("use %s for a root: %w", dir, err)
	}
	return fd, nil
}

func checkEmpty(fd int) error {
	buf := make([]byte, 1024)
	n, err := unix.ReadDirent(fd, buf)
	if err != nil {
		return err
	}
	if _, entries, _ := unix.ParseDirent(buf[:n], -1, nil); entries > 0 {
		return errors.New("not empty")
	}
	return nil
}

// tree is a root being built.
type tree struct {
	binder
	dir string
	fd  int
	dev uint64 // of the tmpfs; files on another device come from the host
	// closed counts the tree's directories that cover closed directories of the host.
	closed int
}

// newTree makes the skeleton.
func newTree(dir string, fd int, mounts []mount) (*tree, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	t := &tree{dir: dir, fd: fd, dev: st.Dev}
	t.binder = binder{mounts: mounts, emptyDir: t.path(Own + "/empty"), emptyFile: t.path(Own + "/etc/empty")}
	for _, s := range skeleton {
		for d := range strings.FieldsSeq(s.dirs) {
			if err := t.makeDir(d, s.mode); err != nil {
				return nil, err
			}
		}
	}
	for _, l := range skeletonLinks {
		if err := t.makeLink(l.name, l.target); err != nil {
			return nil, err
		}
	}
	return t, t.writeFile(Own+"/etc/empty", nil, 0o644)
}

func (t *tree) path(rel string) string { return t.dir + "/" + strings.TrimPrefix(rel, "/") }

// makeDir makes a directory of the skeleton, where every parent is ours.
func (t *tree) makeDir(rel string, mode uint32) error {
	err := unix.Mkdirat(t.fd, rel, mode)
	if err == nil {
		err = unix.Fchmodat(t.fd, rel, mode, 0)
	}
	if err != nil {
		return fmt.Errorf("make directory /%s: %w", rel, err)
	}
	return nil
}

func (t *tree) makeLink(rel, target string) error {
	if err := unix.Symlinkat(target, t.fd, rel); err != nil {
		return fmt.Errorf("make link /%s: %w", rel, err)
	}
	return nil
}

func (t *tree) writeFile(rel string, content []byte, mode uint32) error {
	if err := writeFileAt(t.fd, rel, content, mode); err != nil {
		return fmt.Errorf("write /%s: %w", rel, err)
	}
	return nil
}

func (t *tree) bindProgram(program string) error {
	guest := Own + "/guest"
	if err := t.writeFile(guest, nil, 0o755); err != nil {
		return err
	}
	return t.bindReadOnly(program, t.path(guest))
}

// bindPrograms makes the allow-list visible.
func (h *Host) bindPrograms(t *tree) error {
	for _, p := range programs {
		var err error
		switch h.kindOf(p.path) {
		case isDir:
			err = h.bindDir(t, p.path)
		case isLink:
			err = h.copyLink(t, p.path)
		case isHidden:
			h.gaps = append(h.gaps, p.path+" is missing inside, because not everybody may read it on the host")
		}
		if err != nil {
			return err
		}
	}
	if h.kindOf("/usr") != isDir {
		return spec.Errorf(spec.ErrSandbox, "bind %s: it is not a directory everybody may read", h.path("/usr")).
			WithHint("template host needs the host's programs; choose another template")
	}
	return nil
}

func (h *Host) bindDir(t *tree, path string) error {
	if err := t.mountPoint(Target{Path: path, Dir: true}); err != nil {
		return err
	}
	return t.bindReadOnly(h.sourceOf(path), t.path(path))
}

// copyLink repeats a link of the host, such as /bin -> usr/bin, if it leads to a directory of the
// allow-list.
func (h *Host) copyLink(t *tree, path string) error {
	target, err := os.Readlink(h.path(path))
	if err != nil {
		return err
	}
	inside := target
	if !filepath.IsAbs(target) {
		inside = filepath.Join(filepath.Dir(path), target)
	}
	if !allowed(filepath.Clean(inside)) {
		h.gaps = append(h.gaps, fmt.Sprintf("%s is missing inside, because on the host it is a link to %s", path, target))
		return nil
	}
	if err := unix.Unlinkat(t.fd, path[1:], unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return fmt.Errorf("make link %s: %w", path, err)
	}
	return t.makeLink(path[1:], target)
}

func allowed(path string) bool { return Visible(path + "/") }

// bindDatabases shows the package managers their databases, so that they work inside.
func (h *Host) bindDatabases(t *tree) error {
	for _, d := range databases {
		if h.kindOf(d.path) != isDir {
			continue
		}
		if err := h.bindDir(t, d.path); err != nil {
			return err
		}
		for _, rel := range d.cover {
			at := t.path(d.path) + "/" + rel
			if _, err := os.Lstat(at); err != nil {
				continue
			}
			if err := t.coverFile(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// bindEtc binds the copy of /etc, and over it the files that are this sandbox's own.
func (h *Host) bindEtc(t *tree, o *Options) error {
	if err := t.bindReadOnly(filepath.Join(h.cache, h.name), t.path("etc")); err != nil {
		return err
	}
	for _, g := range generated {
		file := Own + "/etc/" + g.name
		if err := t.writeFile(file, g.content(h.source, o), 0o644); err != nil {
			return err
		}
		if err := t.bindReadOnly(t.path(file), t.path("etc/"+g.name)); err != nil {
			return err
		}
	}
	return nil
}

// kind is the kind of file that the host has at a path of the allow-list.
type kind int

const (
	isMissing kind = iota
	isDir          // a directory that all users may read
	isHidden       // a directory that not all users may read, or not a directory
	isLink
)

// kindOf returns the kind of a path of the host. It follows no link in any part of the path.
func (s source) kindOf(path string) kind {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		var st unix.Stat_t
		if err := unix.Lstat(s.path(path[:i]), &st); err != nil {
			return isMissing
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			if st.Mode&othersEnter != othersEnter {
				return isHidden
			}
		case unix.S_IFLNK:
			if i < len(path) {
				return isHidden // a directory above it is a link
			}
			return isLink
		default:
			return isHidden
		}
	}
	return isDir
}
