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

	"github.com/moby/buildkit/solver/pb"
	copy "github.com/tonistiigi/fsutil/copy"
	"golang.org/x/sys/unix"
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

// packCopied packs the files that a COPY takes.
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

// packTree packs a path and everything below it.
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

// isPlaced reports whether a file is Bothy's.
func (p *packer) isPlaced(name string) bool {
	rel, ok := strings.CutPrefix(name, "/etc/")
	return ok && slices.Contains(p.placed, rel)
}

// packEntry packs one file.
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
