package layers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/erofs"
)

// Bounds of the layers of an image.
const (
	maxBytes   = 64 << 30  // bytes of its files, including those that later layers remove
	maxRead    = 128 << 30 // bytes of the archives
	maxHeaders = 4 << 20   // entries of the archives, including whiteouts
	maxBehind  = 16 << 20  // bytes after the end of an archive
)

// perEntry is roughly the size of a file in the root, without its names, in bytes.
const perEntry = 96

// builder applies layers and keeps the contents of their files.
type builder struct {
	*tree
	out   *erofs.Writer
	room  *image.Room
	bytes int64
	read  int64        // of archives
	heads int          // of entries
	home  int64        // of the files in the home directory
	paths int          // bytes of their paths
	added []erofs.Data // all content that was written

	passwd, group []byte // as they will be written
}

// applyLayer applies a layer over the earlier ones. It reads the archive to its end.
func (b *builder) applyLayer(r io.Reader) error {
	r = &metered{r, &b.read}
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if b.heads++; b.heads > maxHeaders {
			return refuse("the layers of the image have more than %d entries", maxHeaders)
		}
		if err := b.room.Take(int64(perEntry + len(h.Name) + len(h.Linkname))); err != nil {
			return err
		}
		if err := b.applyEntry(h, tr); err != nil {
			return fmt.Errorf("%q: %w", shortName(h.Name), err)
		}
	}
	n, err := io.Copy(io.Discard, io.LimitReader(r, maxBehind+1)) // the digest covers this, too
	if err == nil && n > maxBehind {
		err = refuse("more than %d MiB come behind the end of the archive", maxBehind>>20)
	}
	return err
}

// maxShown bounds the part of a name that an error shows, in bytes.
const maxShown = 256

func shortName(name string) string { return name[:min(len(name), maxShown)] }

// metered counts the bytes read from archives, and fails when there are too many.
type metered struct {
	io.Reader
	read *int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if *m.read += int64(n); *m.read > maxRead {
		return n, refuse("the layers of the image have more than %d GiB", maxRead>>30)
	}
	return n, err
}

// Names that mark removed files.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	others   = ".wh..wh." // for aufs itself
)

func (b *builder) applyEntry(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	parts, err := splitName(h.Name)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return b.applyRoot(h)
	}
	parent, err := b.directory(parts[:len(parts)-1])
	if err != nil {
		return err
	}
	name := parts[len(parts)-1]
	hidden, isWhiteout := strings.CutPrefix(name, whiteout)
	switch {
	case name == opaque:
		b.hideAll(parent)
		return nil
	case strings.HasPrefix(name, others):
		return nil
	case isWhiteout && (hidden == "" || hidden == "." || hidden == ".."):
		return refuse("it removes nothing that can be meant")
	case isWhiteout:
		b.hideOlder(parent, hidden)
		return nil
	}
	return b.applyFile(parent, name, h, r)
}

func (b *builder) applyRoot(h *tar.Header) error {
	if h.Typeflag != tar.TypeDir {
		return refuse("the root is not a directory")
	}
	n, err := describe(h, unix.S_IFDIR)
	if err == nil {
		n.kids, n.hidden = b.root.kids, b.root.hidden
		b.root = n
	}
	return err
}

func (b *builder) applyFile(parent *node, name string, h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		n, err := describe(h, unix.S_IFDIR)
		if err != nil {
			return err
		}
		n.kids = map[string]entry{}
		return b.putFile(parent, name, n)
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		n, err := describe(h, unix.S_IFREG)
		if err == nil {
			n.Data, err = b.content(h.Size, r)
		}
		if err != nil {
			return err
		}
		return b.putFile(parent, name, n)
	case tar.TypeSymlink:
		n, err := describe(h, unix.S_IFLNK)
		if err != nil {
			return err
		}
		if n.Target = h.Linkname; n.Target == "" || len(n.Target) > erofs.MaxLink || strings.ContainsRune(n.Target, 0) {
			return refuse("it is a symbolic link to nothing that can be meant")
		}
		n.Target = strings.Clone(n.Target) // not all of the header
		n.Mode = unix.S_IFLNK | 0o777
		return b.putFile(parent, name, n)
	case tar.TypeLink:
		return b.applyLink(parent, name, h.Linkname)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		delete(parent.kids, name) // it would hide the older file
		return nil
	}
	return refuse("it is of an unknown kind (%q)", h.Typeflag)
}

func (b *builder) content(size int64, r io.Reader) (erofs.Data, error) {
	if size < 0 || size > maxBytes-b.bytes {
		return erofs.Data{}, refuse("the files of the image have more than %d GiB", maxBytes>>30)
	}
	if err := b.room.Take(size); err != nil {
		return erofs.Data{}, err
	}
	d, err := b.out.Add(r)
	if err != nil {
		return d, fmt.Errorf("store it: %w", err)
	}
	if d.Size != size {
		return d, refuse("it has %d bytes instead of %d", d.Size, size)
	}
	b.bytes += size
	b.added = append(b.added, d)
	return d, nil
}

func (b *builder) applyLink(parent *node, name, target string) error {
	parts, err := splitName(target)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return refuse("it is a hard link to a directory")
	}
	dir, err := b.directory(parts[:len(parts)-1])
	if err != nil {
		return err
	}
	to, ok := dir.kids[parts[len(parts)-1]]
	switch {
	case !ok:
		return refuse("it is a hard link to %q, which is not there", shortName(target))
	case to.IsDir():
		return refuse("it is a hard link to a directory")
	}
	return b.putFile(parent, name, to.node)
}

// describe takes the metadata of a file from a header.
func describe(h *tar.Header, kind uint16) (*node, error) {
	const most = 1<<32 - 2
	if h.Uid < 0 || h.Gid < 0 || h.Uid > most || h.Gid > most {
		return nil, refuse("its owner %d:%d cannot be", h.Uid, h.Gid)
	}
	return &node{Node: erofs.Node{
		Mode: kind | uint16(h.Mode&0o7777), UID: uint32(h.Uid), GID: uint32(h.Gid), Mtime: h.ModTime.Unix(),
	}}, nil
}
