// Package manifest has the list of a checkpoint: the names in its directories, their states, and the
// places of the files' contents.
package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

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

	// Seen distinguishes this state of the file from any later one.
	Seen Seen
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
	Verified bool
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

// Seen is a file's inode as the kernel dated it. A program cannot change a file and keep the time
// at which its inode changed, unless the clock that dates files has not moved on since the last
// look.
type Seen struct {
	Device, Inode uint64
	Changed       int64
	Fresh         bool // it changed so shortly before that it may change unnoticed
}

func SeenOf(st *unix.Stat_t) Seen {
	id := IDOf(st)
	return Seen{Device: id.Device, Inode: id.Inode, Changed: st.Ctim.Nano()}
}

// isStill reports whether a file is in the state in which it was seen, as far as its times
// tell.
func (s Seen) isStill(st *unix.Stat_t) bool {
	s.Fresh = false
	return s == SeenOf(st)
}

func (e *Entry) Kind() uint32  { return e.Mode & unix.S_IFMT }
func (e *Entry) IsDir() bool   { return e.Kind() == unix.S_IFDIR }
func (e *Entry) IsFile() bool  { return e.Kind() == unix.S_IFREG }
func (e *Entry) HasData() bool { return e.IsFile() && !e.Left && e.Same == "" }

// IsUnchanged reports whether a file is still in the state in which it was seen.
func (e *Entry) IsUnchanged(st *unix.Stat_t) bool {
	return !e.Seen.Fresh && e.Seen.isStill(st) && e.Size == st.Size && e.Mode == st.Mode
}

// A manifest is a header line, the trees, and the SHA-256 of both.
const manifestHead = "bothy checkpoint 1\n"

// ErrDamaged means that a file is not as it was written.
var ErrDamaged = errors.New("it is damaged")

// Encode writes trees down.
func Encode(trees []Tree) []byte {
	b := []byte(manifestHead)
	b = binary.AppendUvarint(b, uint64(len(trees)))
	for _, t := range trees {
		b = appendText(b, t.Name)
		b = binary.AppendUvarint(b, uint64(len(t.Entries)))
		for i := range t.Entries {
			b = t.Entries[i].appendTo(b)
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

func (e *Entry) appendTo(b []byte) []byte {
	var marks uint64
	if e.Left {
		marks |= isLeft
	}
	if e.Seen.Fresh {
		marks |= isFresh
	}
	b = appendText(b, e.Path)
	for _, n := range []uint64{uint64(e.Mode), marks, uint64(e.UID), uint64(e.GID), e.Seen.Device, e.Seen.Inode} {
		b = binary.AppendUvarint(b, n)
	}
	for _, n := range []int64{e.Size, e.Modified, e.Seen.Changed, e.Content.Pack, e.Content.Offset} {
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
	if e.IsFile() && e.Content.Summed {
		return fmt.Sprintf("%08x", e.Content.Sum)
	}
	return e.Target
}

// setTarget reads what targetText wrote.
func (e *Entry) setTarget(text string) (ok bool) {
	if !e.IsFile() || text == "" {
		e.Target = text
		return true
	}
	n, err := strconv.ParseUint(text, 16, 32)
	e.Content.Sum, e.Content.Summed = uint32(n), true
	return err == nil
}

// MaxSize is far more than the manifest of any usable tree takes, in bytes.
const MaxSize = 4 << 30

// Read reads a manifest.
func Read(path string) ([]Tree, error) {
	b, err := store.ReadFile(path, unix.O_NOFOLLOW, MaxSize)
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
		return nil, ErrDamaged
	}
	if sum := sha256.Sum256(b[:body]); !bytes.Equal(sum[:], b[body:]) {
		return nil, ErrDamaged
	}
	if err := spec.CheckHead("the list of its files", b, manifestHead); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(b, []byte(manifestHead)) {
		return nil, ErrDamaged
	}
	d := &decoder{b: b[len(manifestHead):body]}
	trees := make([]Tree, 0, d.readCount())
	for range cap(trees) {
		t := Tree{Name: d.readText()}
		t.Entries = make([]Entry, 0, d.readCount())
		for range cap(t.Entries) {
			t.Entries = append(t.Entries, d.readEntry())
		}
		trees = append(trees, t)
	}
	if d.bad || len(d.b) > 0 {
		return nil, ErrDamaged
	}
	return trees, nil
}

// decoder reads numbers and texts. A missing one reads as zero or empty, and sets bad.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) readUnsigned() uint64 { return readNumber(d, binary.Uvarint) }
func (d *decoder) readSigned() int64    { return readNumber(d, binary.Varint) }

// readNumber reads a number with a function of package binary, which returns its length too.
func readNumber[T uint64 | int64](d *decoder, read func([]byte) (T, int)) T {
	v, n := read(d.b)
	if n <= 0 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// readCount reads how many items follow; each takes at least one byte.
func (d *decoder) readCount() int {
	n := d.readUnsigned()
	if n > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return 0
	}
	return int(n) //nolint:gosec // it is not larger than a length
}

func (d *decoder) readText() string {
	n := d.readCount()
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) readSmall() uint32 {
	n := d.readUnsigned()
	if n > math.MaxUint32 {
		d.bad = true
	}
	return uint32(n) //nolint:gosec // looked at just now
}

func (d *decoder) readEntry() (e Entry) {
	e.Path, e.Mode = d.readText(), d.readSmall()
	marks := d.readUnsigned()
	e.Left, e.Seen.Fresh = marks&isLeft != 0, marks&isFresh != 0
	e.UID, e.GID = d.readSmall(), d.readSmall()
	e.Seen.Device, e.Seen.Inode = d.readUnsigned(), d.readUnsigned()
	e.Size, e.Modified, e.Seen.Changed = d.readSigned(), d.readSigned(), d.readSigned()
	e.Content.Pack, e.Content.Offset = d.readSigned(), d.readSigned()
	if !e.setTarget(d.readText()) {
		d.bad = true
	}
	e.Same = d.readText()
	for range d.readCount() {
		e.Attrs = append(e.Attrs, Attr{d.readText(), d.readText()})
	}
	for range d.readCount() {
		e.Content.Pieces = append(e.Content.Pieces, Piece{d.readSigned(), d.readSigned()})
	}
	return e
}

// Check refuses a list that cannot be a tree. An empty list stands for a missing directory.
func (t *Tree) Check() error {
	for i := range t.Entries {
		e := &t.Entries[i]
		if i == 0 && (e.Path != "" || !e.IsDir()) || i > 0 && !isBelow(e.Path) || e.Same != "" && !isBelow(e.Same) {
			return ErrDamaged
		}
		end := int64(0)
		for _, p := range e.Content.Pieces {
			if p.At < end || p.Length <= 0 || p.Length > e.Size-p.At {
				return ErrDamaged
			}
			end = p.At + p.Length
		}
		if e.Content.Offset < 0 || e.Size < 0 {
			return ErrDamaged
		}
	}
	return nil
}

// opaqueAttr is the attribute of a directory in an overlay's layer that hides the one below: "y".
const opaqueAttr = "user.overlay.opaque"

// Hides reports whether a directory hides everything below it.
func (e *Entry) Hides() bool {
	return slices.ContainsFunc(e.Attrs, func(a Attr) bool { return a.Name == opaqueAttr && a.Value == "y" })
}

// ShowsBelow reports whether an entry of an overlay's layer lets the directory below show
// through.
func (e *Entry) ShowsBelow() bool { return e.IsDir() && !e.Hides() }

// isBelow reports whether a path is plain and relative.
func isBelow(p string) bool {
	return p != "" && p != "." && p[0] != '/' && p == path.Clean(p) && p != ".." && !strings.HasPrefix(p, "../")
}

// Find returns the tree of a name; a missing tree is empty.
func Find(trees []Tree, name string) Tree {
	for _, t := range trees {
		if t.Name == name {
			return t
		}
	}
	return Tree{Name: name}
}

// ByPath returns the entries by their paths.
func (t *Tree) ByPath() map[string]*Entry {
	all := make(map[string]*Entry, len(t.Entries))
	for i := range t.Entries {
		all[t.Entries[i].Path] = &t.Entries[i]
	}
	return all
}
