package layers

import (
	"archive/tar"
	"fmt"
	"io"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/trust"
)

// settle adds the files that every sandbox needs to the tree, and returns what sandboxes need to know
// about the root.
func (b *builder) settle(o Options) (image.Root, error) {
	a, err := b.account(o)
	if err != nil {
		return image.Root{}, err
	}
	for _, name := range []string{"proc", "sys", "dev", "run"} {
		b.ensureDir(name, 0o755)
	}
	b.ensureDir("tmp", 0o777|unix.S_ISVTX)
	delete(b.root.kids, hostroot.Own)
	b.ensureDir(hostroot.Own, 0o755)
	b.settleHome(a.Home)
	if path.IsAbs(o.Config.Workdir) {
		_, _ = b.directory(pathElements(o.Config.Workdir)) // if it cannot exist, it is not used
	}
	for name, content := range map[string][]byte{
		"passwd": b.passwd, "group": b.group, "resolv.conf": []byte(o.Resolver),
	} {
		if err := b.addFile("etc", name, content, 0o644); err != nil {
			return image.Root{}, err
		}
	}
	for _, name := range hostroot.OwnEtc {
		b.ensureDir("etc", 0o755).kids[name] = b.newLink("/" + hostroot.Own + "/etc/" + name)
	}
	if err := b.settleTrust(); err != nil {
		return image.Root{}, err
	}
	return image.Root{
		Version: image.RootVersion, Account: a, Env: environment(o.Config.Env), Workdir: workdir(o.Config.Workdir),
		Docker: o.Config.Docker, OS: "linux", Arch: runtime.GOARCH, Libc: b.findLibc(), Built: time.Now().UTC().Truncate(time.Second),
	}, nil
}

// settleHome makes the home directory at the target of the image's links, which may not exist yet. If a
// home cannot be there, a directory replaces the link.
func (b *builder) settleHome(home string) {
	way, err := b.walkPath(pathElements(home), true)
	if err != nil || !way[len(way)-1].IsDir() || !b.fitsHome(way[1:]) {
		b.ensureDir(home, 0o755)
	}
}

// fitsHome reports whether a home may hide the last of the files on a path below the root. It is
// [isMountable] for resolved paths.
func (b *builder) fitsHome(way []*node) bool {
	if len(way) == 0 {
		return false
	}
	for _, name := range []string{"proc", "sys", "dev", "tmp", "run", hostroot.Own} {
		if way[0] == b.root.kids[name].node {
			return false
		}
	}
	return len(way) > 1 || way[0] == b.root.kids["root"].node
}

// settleTrust links the sandbox's authorities at the paths where the programs of this distribution look
// for them.
func (b *builder) settleTrust() error {
	for i, name := range trust.Bundles {
		dir := b.lookup("etc/" + path.Dir(name))
		if i == 0 && dir == nil {
			dir, _ = b.directory(pathElements("etc/" + path.Dir(name)))
		}
		if dir == nil || !dir.IsDir() {
			continue
		}
		kid, ok := dir.kids[path.Base(name)]
		if ok && kid.IsFile() || !ok && i == 0 {
			dir.kids[path.Base(name)] = b.newLink(trust.Bundle)
		}
	}
	if dir := b.lookup("etc/ssl/certs"); dir != nil && dir.IsDir() {
		dir.kids["bothy.pem"] = b.newLink(trust.Own)
		dir.kids[trust.Hash+".0"] = b.newLink("bothy.pem")
	}
	if dir := b.lookup("etc/ssh"); dir != nil && dir.IsDir() {
		if _, ok := dir.kids[hostroot.KnownHosts]; !ok {
			dir.kids[hostroot.KnownHosts] = b.newLink(trust.KnownHosts)
		}
	}
	if err := b.addFile("etc/ca-certificates/update.d", "bothy", []byte(hostroot.TrustHook), 0o755); err != nil {
		return err
	}
	return b.addFile("etc/profile.d", "bothy.sh", []byte(hostroot.Profile()), 0o644)
}

// pathElements returns the elements of a path of the image's configuration.
func pathElements(name string) []string {
	return strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
}

func workdir(name string) string {
	if !path.IsAbs(name) || strings.ContainsRune(name, 0) {
		return ""
	}
	return path.Clean(name)
}

// Bounds of an image's environment.
const (
	maxVariables = 500
	maxVariable  = 32 << 10
)

// environment drops entries that are not variables, and those beyond the bounds.
func environment(list []string) (env []string) {
	for _, kv := range list {
		name, _, ok := strings.Cut(kv, "=")
		if ok && name != "" && len(kv) <= maxVariable && len(env) < maxVariables && !strings.ContainsRune(kv, 0) {
			env = append(env, kv)
		}
	}
	return env
}

func (b *builder) findLibc() string {
	for _, dir := range []string{"lib64", "lib", "usr/lib64", "usr/lib"} {
		n := b.lookup(dir)
		if n == nil {
			continue
		}
		for _, l := range []struct{ pattern, libc string }{{"ld-linux-*.so.*", image.Glibc}, {"ld-musl-*.so.1", image.Musl}} {
			for name := range n.kids {
				if ok, _ := path.Match(l.pattern, name); ok {
					return l.libc
				}
			}
		}
	}
	return ""
}

// writeHome archives the image's files in its user's home directory.
func (b *builder) writeHome(w io.Writer, home string) error {
	tw := tar.NewWriter(w)
	if n := b.lookup(home); n != nil && n.IsDir() {
		if err := b.archive(tw, n, "", map[*node]string{}); err != nil {
			return fmt.Errorf("archive the home directory: %w", err)
		}
	}
	return tw.Close()
}

func (b *builder) archive(tw *tar.Writer, dir *node, prefix string, linked map[*node]string) error {
	for _, name := range slices.Sorted(maps.Keys(dir.kids)) {
		n := dir.kids[name].node
		h := &tar.Header{Name: prefix + name, Mode: int64(n.Mode & 0o777), ModTime: time.Unix(n.Mtime, 0), Format: tar.FormatPAX}
		// The archive and memory hold each path in full: a deep file costs more than its name did.
		if b.paths += len(h.Name); b.paths > maxNames {
			return refuse("the paths in it have more than %d MiB", maxNames>>20)
		}
		first, again := linked[n]
		switch {
		case n.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		case n.IsLink():
			h.Typeflag, h.Linkname = tar.TypeSymlink, n.Target
		case again:
			h.Typeflag, h.Linkname = tar.TypeLink, first
		default:
			h.Typeflag, h.Size = tar.TypeReg, n.Data.Size
			linked[n] = h.Name
			if b.home += h.Size; b.home > image.MaxHome {
				return refuse("it has more than %d GiB", int64(image.MaxHome)>>30)
			}
			if err := b.room.Take(h.Size); err != nil {
				return err
			}
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.Copy(tw, b.out.Open(n.Data)); err != nil {
				return err
			}
		}
		if n.IsDir() {
			if err := b.archive(tw, n, h.Name, linked); err != nil {
				return err
			}
		}
	}
	return nil
}
