package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Tree is the content of a directory, in the order of a walk: a directory before its contents.
// The first entry is the directory itself, under the name "".
type Tree struct {
	Name    string // of the source
	Entries []Entry
}

// Entry is one name of a tree, as it was.
type Entry struct {
	Path string // relative, with slashes
	Mode uint32 // of its inode, kind and permissions
	// Left says that it could not be read, or is of a kind that is not kept. A restore leaves the
	// file at this path as it is.
	Left     bool
	UID, GID uint32
	Size     int64
	Modified int64  // nanoseconds
	Target   string // of a symbolic link
	Same     string // the path of the same file under another name; its content is there
	Attrs    []Attr
	Content  Content

	// seen distinguishes this state of the file from any later one.
	seen seen
}

// Attr is an extended attribute that is kept.
type Attr struct{ Name, Value string }

// Content says where the bytes of a file are.
type Content struct {
	Pack   int64 // the number of the checkpoint that wrote them
	Offset int64
	Pieces []Piece // where the file has data; holes are in between
	// Sum is the CRC32C of the data. Contents that a version before sums kept have none.
	Sum      uint32
	Summed   bool
	verified bool
}

// Piece is a part of a file that has data.
type Piece struct{ At, Length int64 }

// Stored returns how many bytes of a pack the content takes.
func (c Content) Stored() (n int64) {
	for _, p := range c.Pieces {
		n += p.Length
	}
	return n
}

// seen is a file's inode as the kernel dated it. A program cannot change a file and keep the time
// at which its inode changed, unless the clock that dates files has not moved on since the last
// look.
type seen struct {
	Device, Inode uint64
	Changed       int64
	fresh         bool // it changed so shortly before that it may change unnoticed
}

func seenOf(st *unix.Stat_t) seen {
	id := idOf(st)
	return seen{Device: id.device, Inode: id.inode, Changed: st.Ctim.Nano()}
}

// is reports whether a file is in the state in which it was seen, as far as its times
// tell.
func (s seen) is(st *unix.Stat_t) bool {
	s.fresh = false
	return s == seenOf(st)
}

func (e *Entry) kind() uint32  { return e.Mode & unix.S_IFMT }
func (e *Entry) isDir() bool   { return e.kind() == unix.S_IFDIR }
func (e *Entry) isFile() bool  { return e.kind() == unix.S_IFREG }
func (e *Entry) hasData() bool { return e.isFile() && !e.Left && e.Same == "" }

// unchanged reports whether a file is still in the state in which it was seen.
func (e *Entry) unchanged(st *unix.Stat_t) bool {
	return !e.seen.fresh && e.seen.is(st) && e.Size == st.Size && e.Mode == st.Mode
}

// A manifest is a header line, the trees, and the SHA-256 of both.
const manifestHead = "bothy checkpoint 1\n"

// errDamaged means that a file is not as it was written.
var errDamaged = errors.New("it is damaged")

// encode writes trees down.
func encode(trees []Tree) []byte {
	b := []byte(manifestHead)
	b = binary.AppendUvarint(b, uint64(len(trees)))
	for _, t := range trees {
		b = appendText(b, t.Name)
		b = binary.AppendUvarint(b, uint64(len(t.Entries)))
		for i := range t.Entries {
			b = t.Entries[i].append(b)
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// marks of an entry.
const (
	isLeft = 1 << iota
	isFresh
)

func (e *Entry) append(b []byte) []byte {
	var marks uint64
	if e.Left {
		marks |= isLeft
	}
	if e.seen.fresh {
		marks |= isFresh
	}
	b = appendText(b, e.Path)
	for _, n := range []uint64{uint64(e.Mode), marks, uint64(e.UID), uint64(e.GID), e.seen.Device, e.seen.Inode} {
		b = binary.AppendUvarint(b, n)
	}
	for _, n := range []int64{e.Size, e.Modified, e.seen.Changed, e.Content.Pack, e.Content.Offset} {
		b = binary.AppendVarint(b, n)
	}
	b = appendText(appendText(b, e.targetText()), e.Same)
	b = binary.AppendUvarint(b, uint64(len(e.Attrs)))
	for _, a := range e.Attrs {
		b = appendText(appendText(b, a.Name), a.Value)
	}
	b = binary.AppendUvarint(b, uint64(len(e.Content.Pieces)))
	for _, p := range e.Content.Pieces {
		b = binary.AppendVarint(binary.AppendVarint(b, p.At), p.Length)
	}
	return b
}

// targetText returns the text that is written in the place of a link's target. For a file it is
// the sum of its content: versions before sums skip it.
func (e *Entry) targetText() string {
	if e.isFile() && e.Content.Summed {
		return fmt.Sprintf("%08x", e.Content.Sum)
	}
	return e.Target
}

// setTarget reads what targetText wrote.
func (e *Entry) setTarget(text string) (ok bool) {
	if !e.isFile() || text == "" {
		e.Target = text
		return true
	}
	n, err := strconv.ParseUint(text, 16, 32)
	e.Content.Sum, e.Content.Summed = uint32(n), true
	return err == nil
}

// maxManifest is far more than the manifest of any usable tree takes, in bytes.
const maxManifest = 4 << 30

// readManifest reads a manifest.
func readManifest(path string) ([]Tree, error) {
	b, err := store.ReadFile(path, unix.O_NOFOLLOW, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var trees []Tree
	if err == nil {
		trees, err = decode(b)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return trees, nil
}

func decode(b []byte) ([]Tree, error) {
	body := len(b) - sha256.Size
	if body < len(manifestHead) {
		return nil, errDamaged
	}
	if sum := sha256.Sum256(b[:body]); !bytes.Equal(sum[:], b[body:]) {
		return nil, errDamaged
	}
	if err := spec.CheckHead("the list of its files", b, manifestHead); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(b, []byte(manifestHead)) {
		return nil, errDamaged
	}
	d := &decoder{b: b[len(manifestHead):body]}
	trees := make([]Tree, 0, d.count())
	for range cap(trees) {
		t := Tree{Name: d.text()}
		t.Entries = make([]Entry, 0, d.count())
		for range cap(t.Entries) {
			t.Entries = append(t.Entries, d.entry())
		}
		trees = append(trees, t)
	}
	if d.bad || len(d.b) > 0 {
		return nil, errDamaged
	}
	return trees, nil
}

// decoder reads numbers and texts. A missing one reads as zero or empty, and sets bad.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) unsigned() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads how many items follow; each takes at least one byte.
func (d *decoder) count() int {
	n := d.unsigned()
	if n > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return 0
	}
	return int(n) //nolint:gosec // it is not larger than a length
}

func (d *decoder) text() string {
	n := d.count()
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) small() uint32 {
	n := d.unsigned()
	if n > math.MaxUint32 {
		d.bad = true
	}
	return uint32(n) //nolint:gosec // looked at just now
}

func (d *decoder) entry() (e Entry) {
	e.Path, e.Mode = d.text(), d.small()
	marks := d.unsigned()
	e.Left, e.seen.fresh = marks&isLeft != 0, marks&isFresh != 0
	e.UID, e.GID = d.small(), d.small()
	e.seen.Device, e.seen.Inode = d.unsigned(), d.unsigned()
	e.Size, e.Modified, e.seen.Changed = d.signed(), d.signed(), d.signed()
	e.Content.Pack, e.Content.Offset = d.signed(), d.signed()
	if !e.setTarget(d.text()) {
		d.bad = true
	}
	e.Same = d.text()
	for range d.count() {
		e.Attrs = append(e.Attrs, Attr{d.text(), d.text()})
	}
	for range d.count() {
		e.Content.Pieces = append(e.Content.Pieces, Piece{d.signed(), d.signed()})
	}
	return e
}

// createFile writes a new file.
func createFile(path string, data []byte) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(data); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// writeFile writes a new file, and brings it to the disk.
func writeFile(path string, data []byte) error {
	f, err := createFile(path, data)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// check refuses a list that cannot be a tree. An empty list stands for a missing directory.
func (t *Tree) check() error {
	for i := range t.Entries {
		e := &t.Entries[i]
		if i == 0 && (e.Path != "" || !e.isDir()) || i > 0 && !isBelow(e.Path) || e.Same != "" && !isBelow(e.Same) {
			return errDamaged
		}
		end := int64(0)
		for _, p := range e.Content.Pieces {
			if p.At < end || p.Length <= 0 || p.Length > e.Size-p.At {
				return errDamaged
			}
			end = p.At + p.Length
		}
		if e.Content.Offset < 0 || e.Size < 0 {
			return errDamaged
		}
	}
	return nil
}
