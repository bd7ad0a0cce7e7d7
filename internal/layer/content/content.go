// Package content reads a saved root layer: its files, the removed names, and the files' contents.
// gVisor makes the saves; the package understands only the parts it needs. A save may come from another
// user's archive, so everything is bounded, and no name in it is used as a path of the host.
//
// A save has four files. The manifest (fscheckpoint.pb) tells which parts of the others belong to the
// layer. multitar.img is a tar archive in which a regular file has, instead of its content, the
// content's position in a memory. pages_meta.img tells which parts of that memory are in pages.img, one
// after the other; the rest is zeros.
package content

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Bounds of a save.
const (
	maxManifest = 1 << 20   // bytes
	maxMeta     = 256 << 20 // bytes
	maxEntries  = 2 << 20
	maxNames    = 256 << 20 // bytes
	maxParts    = 16 << 20  // of files, in the memory
)

// File is a file of the layer. A file with several names is one File.
type File struct {
	Type     byte  // as in a tar archive
	Mode     int64 // permissions
	UID, GID int
	Mtime    time.Time
	Target   string // of a symbolic link
	Size     int64
	Xattrs   map[string]string
	// Gone means that the name was removed from the files below the layer. Opaque means that everything
	// in the directory below the layer was removed.
	Gone, Opaque bool

	parts []part
}

// part is a piece of a file, and its position in the memory.
type part struct{ start, end, at uint64 }

// Layer is an open save.
type Layer struct {
	Files        map[string]*File // by path, without a leading or trailing slash; "" is the root
	pages        *os.File
	held         []span
	names, count int
	pieces       int64
}

// span is a piece of the memory, and its position in the pages.
type span struct {
	start, end uint64
	at         int64
}

// Open reads a save, without the files' contents.
func Open(dir string) (*Layer, error) {
	l, err := openFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("read the root layer: %w", err)
	}
	return l, nil
}

func openFiles(dir string) (*Layer, error) {
	text, err := store.ReadFile(filepath.Join(dir, "fscheckpoint.pb"), 0, maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, err
	}
	meta, err := store.ReadFile(filepath.Join(dir, "pages_meta.img"), 0, maxMeta)
	if err != nil {
		return nil, err
	}
	l := &Layer{Files: map[string]*File{}}
	if l.held, err = m.readSpans(meta); err != nil {
		return nil, err
	}
	tree, err := store.OpenRegular(filepath.Join(dir, "multitar.img"), 0)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	if err := l.readTree(io.NewSectionReader(tree, m.tarStart, m.tarEnd-m.tarStart)); err != nil {
		return nil, err
	}
	l.pages, err = store.OpenRegular(filepath.Join(dir, "pages.img"), 0)
	return l, err
}

// Close closes the save.
func (l *Layer) Close() error { return l.pages.Close() }

func refuse(format string, args ...any) error {
	return spec.Errorf(spec.ErrDenied, format, args...)
}

// readTree reads the tree.
func (l *Layer) readTree(r io.Reader) error {
	links := map[string]string{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name, err := l.localName(h.Name)
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeLink {
			links[name] = h.Linkname
			continue
		}
		f, err := l.readFile(h, tr)
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		l.Files[name] = f
	}
	for name, to := range links {
		to, err := l.localName(to)
		if err != nil {
			return err
		}
		f := l.Files[to]
		if f == nil || f.Type == tar.TypeDir {
			return refuse("%q is another name of %q, which is not a file", name, to)
		}
		l.Files[name] = f
	}
	return nil
}

// localName returns a path of the archive in the form of Files.
func (l *Layer) localName(name string) (string, error) {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "."), "/")
	name = strings.Clone(strings.TrimPrefix(name, "/")) // Clone, because the name is part of the header
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == ".." || part == "" && name != "" || strings.ContainsRune(part, 0) {
			return "", refuse("it has a file called %q", name)
		}
	}
	l.names += len(name)
	if l.count++; l.count > maxEntries || l.names > maxNames {
		return "", refuse("it has more than %d files, or names of more than %d MiB", maxEntries, maxNames>>20)
	}
	return name, nil
}

// Names of extended attributes in a tar archive, and of the one that makes a directory
// opaque.
const (
	xattrPrefix = "SCHILY.xattr."
	ownXattrs   = "trusted."
	opaqueXattr = "trusted.overlay.opaque"
)

func (l *Layer) readFile(h *tar.Header, r io.Reader) (*File, error) {
	const most = 1<<32 - 2
	if h.Uid < 0 || h.Gid < 0 || h.Uid > most || h.Gid > most {
		return nil, refuse("its owner %d:%d cannot be", h.Uid, h.Gid)
	}
	f := &File{Type: h.Typeflag, Mode: h.Mode & 0o7777, UID: h.Uid, GID: h.Gid, Mtime: h.ModTime}
	switch h.Typeflag {
	case tar.TypeReg:
		if err := l.readParts(f, h.Size, r); err != nil {
			return nil, err
		}
	case tar.TypeSymlink:
		f.Target = strings.Clone(h.Linkname)
		if l.names += len(f.Target); f.Target == "" || strings.ContainsRune(f.Target, 0) {
			return nil, refuse("it is a link to %q", f.Target)
		}
	case tar.TypeChar:
		f.Gone = h.Devmajor == 0 && h.Devminor == 0
	case tar.TypeDir, tar.TypeBlock, tar.TypeFifo:
	default:
		return nil, refuse("it is of an unknown kind (%q)", h.Typeflag)
	}
	return f, l.xattrs(f, h)
}

func (l *Layer) xattrs(f *File, h *tar.Header) error {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		switch {
		case !ok:
			continue
		case name == opaqueXattr:
			f.Opaque = value == "y"
			continue
		case strings.HasPrefix(name, ownXattrs): // the wall's own
			continue
		case strings.HasPrefix(name, "system.posix_acl_"):
			text, err := decodeACL(value)
			if err != nil {
				return err
			}
			value = text
		}
		if l.names += len(name) + len(value); l.names > maxNames {
			return refuse("extended attributes have more than %d MiB", maxNames>>20)
		}
		if f.Xattrs == nil {
			f.Xattrs = map[string]string{}
		}
		f.Xattrs[strings.Clone(name)] = strings.Clone(value)
	}
	return nil
}

// partSize is the number of bytes that describe a part.
const partSize = 24

// readParts reads the positions of a file's content.
func (l *Layer) readParts(f *File, size int64, r io.Reader) error {
	n := (size - 8) / partSize
	if size < 8 || (size-8)%partSize != 0 {
		return refuse("the description of its content has %d bytes", size)
	}
	if l.pieces += n; l.pieces > maxParts {
		return refuse("the content of the files is in more than %d parts", maxParts)
	}
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	f.Size = int64(binary.LittleEndian.Uint64(head[:]))
	if f.Size < 0 {
		return refuse("it has no size")
	}
	f.parts = make([]part, 0, min(n, 1<<10))
	var b [partSize]byte
	end := uint64(0)
	for range n {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return err
		}
		p := part{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
		if p.start < end || p.end <= p.start || p.at+(p.end-p.start) < p.at {
			return refuse("its content is not in order")
		}
		end = p.end
		f.parts = append(f.parts, p)
	}
	return nil
}

// Open returns the contents of a regular file.
func (l *Layer) Open(f *File) io.Reader {
	return io.NewSectionReader(&reader{l, f}, 0, f.Size)
}

type reader struct {
	l *Layer
	f *File
}

// ReadAt reads from parts of the memory, or zeros where the file has none.
func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	for n := 0; n < len(p); {
		at := uint64(off) + uint64(n)
		step, err := r.readSome(p[n:], at)
		if err != nil {
			return n, err
		}
		n += step
	}
	return len(p), nil
}

func (r *reader) readSome(p []byte, at uint64) (int, error) {
	i, in := slices.BinarySearchFunc(r.f.parts, at, func(x part, at uint64) int { return compare(x.start, x.end, at) })
	if !in {
		if i < len(r.f.parts) {
			p = p[:min(uint64(len(p)), r.f.parts[i].start-at)]
		}
		clear(p)
		return len(p), nil
	}
	x := r.f.parts[i]
	p = p[:min(uint64(len(p)), x.end-at)]
	return r.l.memory(p, x.at+(at-x.start))
}

// memory reads a piece of the memory.
func (l *Layer) memory(p []byte, at uint64) (int, error) {
	i, in := slices.BinarySearchFunc(l.held, at, func(x span, at uint64) int { return compare(x.start, x.end, at) })
	if !in {
		if i < len(l.held) {
			p = p[:min(uint64(len(p)), l.held[i].start-at)]
		}
		clear(p)
		return len(p), nil
	}
	x := l.held[i]
	p = p[:min(uint64(len(p)), x.end-at)]
	n, err := l.pages.ReadAt(p, x.at+int64(at-x.start))
	if n == len(p) {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// compare reports whether a range is before a position, around it or after it.
func compare(start, end, at uint64) int {
	switch {
	case end <= at:
		return -1
	case start > at:
		return 1
	}
	return 0
}
