package step

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	continuity "github.com/containerd/continuity/fs"
	"github.com/moby/buildkit/solver/pb"
	copy "github.com/tonistiigi/fsutil/copy"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/trust"
)

// packer writes files below a directory to an archive, each once, with their owners.
type packer struct {
	tw      *tar.Writer
	root    string
	image   bool     // root is the root of an image, with files that a sandbox added
	placed  []string // names of the added files in /etc
	without []string // paths in root to leave out, with everything below them
	written map[string]bool
	links   map[[2]uint64]string
	buf     []byte
}

func newPacker(w io.Writer, root string) *packer {
	return &packer{tw: tar.NewWriter(w), root: root, written: map[string]bool{}, links: map[[2]uint64]string{}, buf: make([]byte, 1<<20)}
}

func (p *packer) close() error { return p.tw.Close() }

func (p *packer) packCopied(c *pb.FileActionCopy) error {
	if !c.AllowWildcard {
		return p.packPath(c.Src)
	}
	names, err := copy.ResolveWildcards(p.root, path.Join("/", c.Src), c.FollowSymlink)
	for _, name := range names {
		if err == nil {
			err = p.packPath(name)
		}
	}
	return err
}

// maxLinks bounds how many links one path may lead through.
const maxLinks = 255

// packPath packs a path: the links on the way, and the tree at its end. It skips a missing file; the
// step will report that.
func (p *packer) packPath(name string) error {
	at, rest := "/", path.Clean(path.Join("/", name))
	for links := 0; ; {
		first, more, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		if first == "" {
			return p.packTree(at)
		}
		at = path.Join(at, first)
		info, err := os.Lstat(filepath.Join(p.root, at))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			return nil
		}
		if err != nil {
			return err
		}
		if p.isPlaced(at) {
			return nil
		}
		if err := p.packEntry(at, info); err != nil {
			return err
		}
		rest = more
		if info.Mode()&fs.ModeSymlink == 0 || p.isTrust(at) {
			continue
		}
		target, err := os.Readlink(filepath.Join(p.root, at))
		if err != nil {
			return err
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%s leads through too many links", name)
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(at), target)
		}
		at, rest = "/", path.Clean(path.Join("/", target, more))
	}
}

func (p *packer) packTree(at string) error {
	return filepath.WalkDir(filepath.Join(p.root, at), func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(p.root, name)
		if err != nil {
			return err
		}
		rel = path.Join("/", rel)
		if slices.Contains(p.without, rel) {
			return filepath.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return p.packEntry(rel, info)
	})
}

func (p *packer) isPlaced(name string) bool {
	rel, ok := strings.CutPrefix(name, "/etc/")
	return ok && slices.Contains(p.placed, rel)
}

func (p *packer) packEntry(name string, info fs.FileInfo) error {
	if p.written[name] || info.Mode()&fs.ModeSocket != 0 {
		return nil
	}
	p.written[name] = true
	if name == "/.bothy" || p.isPlaced(name) {
		return nil // it is not part of the image
	}
	if p.isTrust(name) {
		return p.packBundle(name, info)
	}
	full := filepath.Join(p.root, name)
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(full); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Format = "."+name, tar.FormatPAX
	h.Uname, h.Gname = "", ""
	var st unix.Stat_t
	if err := unix.Lstat(full, &st); err != nil {
		return err
	}
	if id := [2]uint64{st.Dev, st.Ino}; info.Mode().IsRegular() && st.Nlink > 1 {
		if first, ok := p.links[id]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return p.tw.WriteHeader(h)
		}
		p.links[id] = h.Name
	}
	if err := p.tw.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(full)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{p.tw}, struct{ io.Reader }{io.LimitReader(f, h.Size)}, p.buf)
	if err == nil && n < h.Size {
		err = fmt.Errorf("%s became shorter", name)
	}
	return err
}

// maxBundle bounds a bundle of authorities, in bytes.
const maxBundle = 32 << 20

// isTrust reports whether a path would make users of the image trust the sandbox's own authority. It is
// a link to Bothy's files, which would be dangling in an image, or a bundle that was written inside.
func (p *packer) isTrust(name string) bool {
	if !p.image {
		return false
	}
	full := filepath.Join(p.root, name)
	if to, err := os.Readlink(full); err == nil {
		return to == trust.Bundle || to == trust.Own || to == trust.KnownHosts || to == filepath.Base(trust.Own) && filepath.Base(name) == trust.Hash+".0"
	}
	rel, ok := strings.CutPrefix(name, "/etc/")
	if !ok || !slices.Contains(trust.Bundles, rel) {
		return false
	}
	info, err := os.Lstat(full)
	return err == nil && info.Mode().IsRegular() && info.Size() <= maxBundle
}

// packBundle packs a bundle of authorities as a file. It leaves out the sandbox's own authority,
// because users of the image should not trust it. A bundle with only that authority is
// left out.
func (p *packer) packBundle(name string, info fs.FileInfo) error {
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	from := filepath.Join(p.root, name)
	if info.Mode()&fs.ModeSymlink != 0 {
		if to, err := os.Readlink(from); err != nil || to != trust.Bundle {
			return err
		}
		from = filepath.Join(p.root, trust.Bundle)
		h.Typeflag, h.Mode = tar.TypeReg, 0o644
	}
	text, err := readBundle(from)
	if err != nil {
		return err
	}
	h.Name, h.Format, h.Size = "."+name, tar.FormatPAX, int64(len(text))
	h.Uname, h.Gname = "", ""
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = p.tw.Write(text)
	return err
}

// readBundle returns the authorities of a file except the sandbox's own.
func readBundle(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxBundle))
	return trust.Renew(text, nil), err
}

// giveWay removes Bothy's link to the sandbox's authorities at the destination of a copy.
// The link is not part of the image, and its target cannot be written.
func (at root) giveWay(dest string) error {
	dir, base := filepath.Split(filepath.Clean(dest))
	dir, err := continuity.RootPath(string(at), dir)
	if err != nil {
		return err
	}
	p := filepath.Join(dir, base)
	if to, err := os.Readlink(p); err != nil || to != trust.Bundle {
		return nil //nolint:nilerr // there is none
	}
	return os.Remove(p)
}
