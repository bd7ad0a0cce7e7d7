package review

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/linediff"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// maxText is the size up to which a file is shown line by line.
const maxText = 1 << 20

// binaryHead is how far git looks for a zero byte, by which it recognizes a file that is not
// text.
const binaryHead = 8000

// Text is a change of a file's lines.
type Text struct {
	Added, Removed int
	// Left says why the change has no lines; empty if it has some.
	Left string
	// Digest is the digest of the layer's file when its lines were read, or its bytes if it has
	// no lines. See [Order].
	Digest Digest

	old   []string
	now   []string
	hunks []hunk
	sides func() (Blobs, error) // for a change without lines; nil if it has too many bytes
}

// Reader reads both sides of changes.
type Reader struct {
	l        *look
	old, now func(path string) *dir // where a side is
}

func newReader(l *look) *Reader {
	return &Reader{l, func(string) *dir { return l.host }, func(string) *dir { return l.upper }}
}

// Open opens a workspace to read its changes. The caller closes it.
func (w Workspace) Open() (*Reader, error) {
	l, err := w.open()
	if err != nil {
		return nil, err
	}
	return newReader(l), nil
}

// Close closes the workspace.
func (r *Reader) Close() { r.l.close() }

// Text compares the lines of both sides. A file that is not text, or is too large, has none.
func (r *Reader) Text(c Change) (Text, error) {
	if c.Refused != "" {
		return Text{Left: c.Refused}, nil
	}
	old, left, err := r.side(r.old(c.Path), c.Path, c.Old)
	if err != nil || left != "" {
		return Text{Left: left, sides: r.blobs(c)}, err
	}
	now, left, err := r.side(r.now(c.Path), c.Path, c.New)
	if err != nil || left != "" {
		return Text{Left: left, sides: r.blobs(c)}, err
	}
	t := Text{old: linediff.Lines(old), now: linediff.Lines(now), Digest: digestOfText(now)}
	edits := linediff.Edits(t.old, t.now)
	for _, e := range edits {
		t.Removed += e.B - e.A
		t.Added += e.D - e.C
	}
	t.hunks = hunksOf(edits, len(t.old), len(t.now))
	return t, nil
}

// Sum returns the digest of a file as it is in the layer now. For anything but a file it is the
// digest of an empty one.
func (r *Reader) Sum(c Change) (Digest, error) {
	if c.New.Form != File {
		return digestOfText(""), nil
	}
	f, err := r.now(c.Path).read(c.Path, c.New.Mark)
	if err != nil {
		return Digest{}, err
	}
	defer f.Close()
	return digestOf(f, c.New.Size)
}

func (r *Reader) side(d *dir, path string, e Entry) (text, left string, err error) {
	switch {
	case e.Form == Link:
		return e.Target, "", nil
	case e.Form != File:
		return "", "", nil
	case e.Size > maxText:
		return "", fmt.Sprintf("it has more than %d MiB", maxText>>20), nil
	}
	f, err := d.read(path, e.Mark)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	b, err := store.ReadAll(f, maxText)
	if err != nil {
		return "", "", fmt.Errorf("read %s: %w", Quote(path), err)
	}
	if bytes.IndexByte(b[:min(len(b), binaryHead)], 0) >= 0 {
		return "", "it is binary", nil
	}
	return string(b), "", nil
}

// Patch writes changes as git apply and patch read them.
type Patch struct {
	W io.Writer
	// Prefix precedes paths: empty for the first workspace.
	Prefix string
	// Show makes the output safe for a terminal. A patch that it changes cannot be applied any
	// more. Nil leaves the output as it is.
	Show func(line string) string
	// Changed is set when Show had something to do.
	Changed bool
}

// Write writes one change. A change without lines, such as of an image, leaves a line that is not
// part of a patch. So does a conflict, before a change that would undo the host's.
func (p *Patch) Write(c Change, t Text) error {
	if err := p.conflict(c); err != nil {
		return err
	}
	if c.New.Form == Directory && !c.makesWay() || c.Kind == Deleted && c.Old.Form == Directory {
		if c.Implied {
			return nil
		}
		return p.remark(c, "a directory")
	}
	if t.Left != "" {
		return p.remark(c, t.Left)
	}
	var b strings.Builder
	parts := partsOf(c)
	for _, part := range parts {
		if len(parts) > 1 {
			t2 := Text{}
			if part.Kind == Deleted {
				t2.old = t.old
			} else {
				t2.now = t.now
			}
			t2.hunks = hunksOf(linediff.Edits(t2.old, t2.now), len(t2.old), len(t2.now))
			p.file(&b, part, t2)
			continue
		}
		p.file(&b, part, t)
	}
	_, err := io.WriteString(p.W, b.String())
	return err
}

// partsOf returns the changes as git knows them: if something else replaces a file, one goes and
// the other comes.
func partsOf(c Change) []Change {
	if c.Kind != Type || c.Old.Form == Directory {
		return []Change{c}
	}
	gone, come := c, c
	gone.Kind, gone.New = Deleted, Entry{}
	if c.makesWay() {
		return []Change{gone} // the contents of the directory come by themselves
	}
	come.Kind, come.Old = Added, Entry{}
	return []Change{gone, come}
}

// makesWay reports whether a directory replaces a file or a link.
func (c Change) makesWay() bool {
	return c.New.Form == Directory && (c.Old.Form == File || c.Old.Form == Link)
}

// conflict writes a remark about a conflict before the change.
func (p *Patch) conflict(c Change) error {
	if c.Conflict == "" || c.Implied {
		return nil
	}
	_, err := fmt.Fprintf(p.W, "# CONFLICT %s: %s\n", p.named(c), c.Conflict)
	return err
}

func (p *Patch) name(side, path string) string {
	if p.Prefix != "" {
		path = strings.TrimPrefix(p.Prefix, "/") + "/" + path
	}
	return Quote(side + "/" + path)
}

// named returns the name of a changed path in a remark.
func (p *Patch) named(c Change) string {
	if p.Prefix != "" {
		return Quote(p.Prefix + "/" + c.Path)
	}
	return Quote(c.Path)
}

func (p *Patch) remark(c Change, why string) error {
	_, err := fmt.Fprintf(p.W, "# %s %s: not shown, %s (%d bytes, were %d)\n", c.Kind, p.named(c), why, c.New.Size, c.Old.Size)
	return err
}

func (p *Patch) file(b *strings.Builder, c Change, t Text) {
	sameForGit := c.Old.Form == c.New.Form && gitMode(c.Old) == gitMode(c.New)
	if mode, other := c.Chmod(); sameForGit && (other || len(t.hunks) == 0) {
		fmt.Fprintf(b, "# mode of %s: %03o, was %03o, which git does not keep\n", p.named(c), mode, c.Old.Mode)
	}
	if sameForGit && len(t.hunks) == 0 {
		return
	}
	from, to := p.header(b, c)
	if len(t.hunks) == 0 {
		return
	}
	fmt.Fprintf(b, "--- %s\n+++ %s\n", ended(from), ended(to))
	for _, h := range t.hunks {
		h.text(b, t.old, t.now, p.show)
	}
}

// header writes the lines before the hunks of a file, and returns the names for them.
func (p *Patch) header(b *strings.Builder, c Change) (from, to string) {
	from, to = p.name("a", c.Path), p.name("b", c.Path)
	fmt.Fprintf(b, "diff --git %s %s\n", from, to)
	switch {
	case c.Old.Form == Nothing || c.Old.Form == Directory:
		fmt.Fprintf(b, "new file mode %s\n", gitMode(c.New))
		from = "/dev/null"
	case c.Kind == Deleted:
		fmt.Fprintf(b, "deleted file mode %s\n", gitMode(c.Old))
		to = "/dev/null"
	case gitMode(c.Old) != gitMode(c.New):
		fmt.Fprintf(b, "old mode %s\nnew mode %s\n", gitMode(c.Old), gitMode(c.New))
	}
	return from, to
}

// ended adds the tab after a name with spaces, by which patch finds its end.
func ended(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

func (p *Patch) show(line string) string {
	if p.Show == nil {
		return line
	}
	shown := p.Show(line)
	p.Changed = p.Changed || shown != line
	return shown
}

func gitMode(e Entry) string {
	switch {
	case e.Form == Link:
		return "120000"
	case e.Mode&0o100 != 0:
		return "100755"
	}
	return "100644"
}

// Pick chooses hunks of a change: by their index, from 0, and by the lines that they remove and
// add.
type Pick func(n int, removed, added []string) bool

// Matching chooses the hunks in whose changed lines a pattern is found.
func Matching(re *regexp.Regexp) Pick {
	found := func(line string) bool { return re.MatchString(strings.TrimRight(line, "\r\n")) }
	return func(_ int, removed, added []string) bool {
		return slices.ContainsFunc(removed, found) || slices.ContainsFunc(added, found)
	}
}

// Only chooses the hunks with these numbers.
func Only(numbers ...int) Pick {
	return func(n int, _, _ []string) bool { return slices.Contains(numbers, n) }
}

// Hunks returns the number of hunks.
func (t Text) Hunks() int { return len(t.hunks) }

func (t Text) pick(chosen Pick) (some []hunk) {
	for n, h := range t.hunks {
		if removed, added := h.changed(t.old, t.now); chosen(n, removed, added) {
			some = append(some, h)
		}
	}
	return some
}

// hasHunks reports whether a change may have hunks to choose from. A link, a directory, a
// deletion or a change of the mode alone has none. Its flags are not those of a text that it may
// have by now.
func (c Change) hasHunks() bool {
	return c.New.Form == File && (c.Kind == Added || c.Kind == Modified)
}

// Picked returns the change that an apply of only some hunks makes: without a new mode. some is
// false if there are none.
func (c Change) Picked(t Text, chosen Pick) (_ Change, _ Text, some bool) {
	if !c.hasHunks() {
		return c, t, false
	}
	if c.Old.Form != Nothing {
		c.New.Mode = c.Old.Mode
	}
	t, some = t.Picked(chosen)
	return c, t, some
}

// Picked returns a text with only some hunks; ok is false if there are none.
func (t Text) Picked(chosen Pick) (_ Text, ok bool) {
	some := t.pick(chosen)
	if len(some) == 0 {
		return t, false
	}
	now := linediff.Lines(merge(t.old, t.now, some))
	p := Text{old: t.old, now: now}
	edits := linediff.Edits(p.old, p.now)
	for _, e := range edits {
		p.Removed += e.B - e.A
		p.Added += e.D - e.C
	}
	p.hunks = hunksOf(edits, len(p.old), len(p.now))
	return p, true
}

// Compile reads the pattern of --match.
func Compile(pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "--match: %w", err)
	}
	return re, nil
}
