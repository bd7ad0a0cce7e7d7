// Package export makes a layer of a container image from a sandbox's changes: its root layer over an
// image's root, and its home. It reverts the changes made to the image for sandboxes: it exchanges ids
// back and leaves Bothy's files out. The same template makes the same layer, byte for byte.
package export

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/erofs"
	"github.com/bothy-dev/bothy/internal/layer/content"
	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/spec"
)

// Options are the sources of a layer.
type Options struct {
	Layer string // the directory of the saved root layer; "" if nothing was changed
	Home  string // the directory with the home; "" if the home is part of the root layer
	Root  image.Root
	Base  *erofs.Reader // of the root's file system
	// UID and GID are the ids that own files of the host, as seen inside.
	UID, GID int
	// Places are the mount points of host directories, and of private ones, in the sandbox. Files made
	// only as mount points are left out.
	Places []string
}

// maxBytes bounds the total size of a layer's files, as for an image that is loaded.
const maxBytes = 64 << 30

// Write writes the layer as a tar archive.
func Write(w io.Writer, o Options) error {
	e := &exporter{Options: o, tw: tar.NewWriter(w), written: map[*content.File]string{}}
	home, there, err := o.Base.Resolve(o.Root.Account.Home)
	if err != nil {
		return fmt.Errorf("find the home directory in the image: %w", err)
	}
	e.home = strings.Trim(home, "/")
	if o.Layer != "" {
		if e.layer, err = content.Open(o.Layer); err != nil {
			return err
		}
		defer func() { _ = e.layer.Close() }()
		if err := e.writeRoot(); err != nil {
			return fmt.Errorf("export the root layer: %w", err)
		}
	}
	if o.Home == "" {
		return e.tw.Close()
	}
	if err := e.homeDir(there); err != nil {
		return fmt.Errorf("export the home: %w", err)
	}
	return e.tw.Close()
}

type exporter struct {
	Options
	tw      *tar.Writer
	layer   *content.Layer
	home    string // without a leading slash
	written map[*content.File]string
	bytes   int64
}

// writeRoot writes the root layer in the order of its paths, shorter ones first, so that directories come
// before their contents.
func (e *exporter) writeRoot() error {
	e.dropPlaces()
	for _, name := range slices.Sorted(maps.Keys(e.layer.Files)) {
		if e.isOurs(name, e.layer.Files[name]) {
			continue
		}
		if err := e.writeEntry(name, e.layer.Files[name]); err != nil {
			return fmt.Errorf("/%s: %w", name, err)
		}
	}
	return nil
}

// isWithin reports whether a path is dir or below it.
func isWithin(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// isOurs reports whether a file is not part of the image: it belongs to a mount, or is made for each
// sandbox.
func (e *exporter) isOurs(name string, f *content.File) bool {
	if e.Home != "" && isWithin(name, e.home) {
		return true
	}
	for _, dir := range []string{"proc", "sys", "dev", hostroot.Own} {
		if isWithin(name, dir) {
			return true
		}
	}
	if f.Type == tar.TypeSymlink && isWithin(path.Clean(f.Target), "/"+hostroot.Own) {
		return true
	}
	rest, ok := strings.CutPrefix(name, "etc/")
	return ok && slices.Contains(hostroot.Placed(), rest)
}

// dropPlaces removes the directories that were made only as mount points. A new directory is opaque even
// if it hides nothing, so only the base tells whether something existed there.
func (e *exporter) dropPlaces() {
	for _, place := range e.Places {
		if real, _, err := e.Base.Resolve(place); err == nil {
			place = real // the base has links on the way
		}
		for name := strings.Trim(path.Clean("/"+place), "/"); name != "." && name != ""; name = path.Dir(name) {
			f := e.layer.Files[name]
			if f == nil || len(f.Xattrs) > 0 || f.Type != tar.TypeDir && (f.Type != tar.TypeReg || f.Size > 0) || e.hasFileIn(name) {
				break
			}
			if _, err := e.Base.Lookup(name); err == nil {
				break
			}
			delete(e.layer.Files, name)
		}
	}
}

func (e *exporter) hasFileIn(dir string) bool {
	for name := range e.layer.Files {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// Names that mark removed files.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

func (e *exporter) writeEntry(name string, f *content.File) error {
	if strings.HasPrefix(path.Base(name), whiteout) {
		return spec.Errorf(spec.ErrDenied, "an image cannot have a file of this name: it would remove another").
			WithHint("rename it in the sandbox, and save that again")
	}
	if f.Gone {
		if _, err := e.Base.Lookup(name); err != nil {
			return nil // it was only in the layer, or Bothy made it
		}
		return e.writeMark(path.Join(path.Dir(name), whiteout+path.Base(name)))
	}
	h := &tar.Header{
		Typeflag: f.Type, Name: name, Mode: f.Mode, ModTime: f.Mtime, Linkname: f.Target,
		Uid: e.imageUID(f.UID), Gid: e.imageGID(f.GID),
	}
	for key, value := range f.Xattrs {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords["SCHILY.xattr."+key] = value
	}
	switch f.Type {
	case tar.TypeDir:
		return e.writeDir(name, f, h)
	case tar.TypeReg:
		return e.writeFile(name, f, h)
	case tar.TypeSymlink:
		h.Mode = 0o777
	case tar.TypeFifo:
	default:
		return nil // a device: no sandbox can use it
	}
	return e.writeHeader(h)
}

// writeHeader writes a header without the times and names that would differ between runs.
func (e *exporter) writeHeader(h *tar.Header) error {
	h.Format = tar.FormatPAX
	h.ModTime = h.ModTime.Truncate(time.Second)
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	h.Uname, h.Gname = "", ""
	return e.tw.WriteHeader(h)
}

func (e *exporter) writeMark(name string) error {
	return e.writeHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, ModTime: time.Unix(0, 0)})
}

func (e *exporter) writeDir(name string, f *content.File, h *tar.Header) error {
	h.Name += "/"
	if name == "" {
		h.Name = "./"
		n, err := e.Base.Lookup("/")
		if err == nil && int64(n.Mode&^unix.S_IFMT) == h.Mode && int(n.UID) == f.UID && int(n.GID) == f.GID {
			return nil
		}
	}
	if err := e.writeHeader(h); err != nil || !f.Opaque {
		return err
	}
	if n, err := e.Base.Lookup(name); err != nil || !n.IsDir() {
		return nil // it hides nothing
	}
	return e.writeMark(h.Name + opaque)
}

// writeFile writes a regular file, or a hard link to one that was written.
func (e *exporter) writeFile(name string, f *content.File, h *tar.Header) error {
	if first, ok := e.written[f]; ok {
		h.Typeflag, h.Linkname = tar.TypeLink, first
		return e.writeHeader(h)
	}
	r, size, err := e.openContent(name, f)
	if err != nil {
		return err
	}
	if h.Size = size; size > maxBytes-e.bytes {
		return spec.Errorf(spec.ErrDenied, "the files have more than %d GiB, holes as well", int64(maxBytes)>>30)
	}
	e.bytes += size
	if err := e.writeHeader(h); err != nil {
		return err
	}
	e.written[f] = name
	_, err = io.Copy(e.tw, r)
	return err
}

func (e *exporter) openContent(name string, f *content.File) (io.Reader, int64, error) {
	change := e.changeOf(name)
	if change == nil || f.Size > maxChanged {
		return e.layer.Open(f), f.Size, nil
	}
	text, err := io.ReadAll(e.layer.Open(f))
	if err != nil {
		return nil, 0, err
	}
	text = change(text)
	return strings.NewReader(string(text)), int64(len(text)), nil
}

// imageUID and imageGID return the ids in the image.
func (e *exporter) imageUID(id int) int { return image.SwapIDs(id, e.UID, e.Root.Account.ImageUID) }
func (e *exporter) imageGID(id int) int { return image.SwapIDs(id, e.GID, e.Root.Account.ImageGID) }

// maxChanged bounds the size of a file that is rewritten, in bytes.
const maxChanged = 64 << 20

// changeOf returns the function that rewrites a file of the root layer, or nil, as for most files.
func (e *exporter) changeOf(name string) func([]byte) []byte {
	rest, ok := strings.CutPrefix(name, "etc/")
	if !ok {
		return nil
	}
	switch strings.TrimSuffix(rest, "-") { // programs keep copies with this suffix
	case "passwd":
		return func(b []byte) []byte { return columns(columns(b, 2, e.imageUID), 3, e.imageGID) }
	case "group":
		return func(b []byte) []byte { return columns(b, 2, e.imageGID) }
	}
	if slices.Contains(trust.Bundles, rest) {
		return func(b []byte) []byte { return trust.Renew(b, nil) }
	}
	return nil
}

// columns replaces the ids in a column of an account file.
func columns(text []byte, column int, exchange func(int) int) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		fields := strings.Split(string(line), ":")
		if column < len(fields) {
			if id, err := strconv.ParseUint(fields[column], 10, 31); err == nil {
				fields[column] = strconv.Itoa(exchange(int(id)))
			}
		}
		out.WriteString(strings.Join(fields, ":"))
	}
	return out.Bytes()
}
