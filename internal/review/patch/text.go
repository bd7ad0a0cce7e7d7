// Package patch shows changes of a workspace as people and git read them: as lines, as hunks to choose
// from, and as patches.
package patch

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/linediff"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// binaryHead is how far git looks for a zero byte, by which it recognizes a file that is not
// text.
const binaryHead = 8000

// Text is a change of a file's lines.
type Text struct {
	Added, Removed int
	// Left says why the change has no lines; empty if it has some.
	Left string
	// Digest is the digest of the layer's file when its lines were read, or its bytes if it has
	// no lines.
	Digest beneath.Digest

	old   []string
	now   []string
	hunks []hunk
	sides func() (Blobs, error) // for a change without lines; nil if it has too many bytes
}

// Reader reads both sides of changes.
type Reader struct {
	oldDir, nowDir func(path string) *beneath.Dir // where a side is
	closeAll       func()
}

// Open opens a workspace to read its changes. The caller closes it.
func Open(w review.Workspace) (*Reader, error) {
	l, err := w.OpenView()
	if err != nil {
		return nil, err
	}
	return ReaderOf(l), nil
}

// ReaderOf reads the changes of an open workspace, which the caller closes if it is done with both.
func ReaderOf(l *review.View) *Reader {
	return &Reader{oldDir: func(string) *beneath.Dir { return l.Host }, nowDir: func(string) *beneath.Dir { return l.Upper }, closeAll: l.Close}
}

// Between reads the differences of two workspaces, which Close closes.
func Between(s *review.Siblings) *Reader {
	return &Reader{oldDir: s.Old, nowDir: s.Now, closeAll: s.Close}
}

// Close closes the workspace.
func (r *Reader) Close() { r.closeAll() }

// Text compares the lines of both sides. A file that is not text, or is too large, has none.
func (r *Reader) Text(c review.Change) (Text, error) {
	if c.Refused != "" {
		return Text{Left: c.Refused}, nil
	}
	old, left, err := r.readSide(r.oldDir(c.Path), c.Path, c.Old)
	if err != nil || left != "" {
		return Text{Left: left, sides: r.readBlobs(c)}, err
	}
	now, left, err := r.readSide(r.nowDir(c.Path), c.Path, c.New)
	if err != nil || left != "" {
		return Text{Left: left, sides: r.readBlobs(c)}, err
	}
	t := newText(linediff.Lines(old), linediff.Lines(now))
	t.Digest = beneath.DigestOfText(now)
	return t, nil
}

// newText compares the lines of two sides.
func newText(old, now []string) Text {
	t := Text{old: old, now: now}
	edits := linediff.Edits(old, now)
	for _, e := range edits {
		t.Removed += e.B - e.A
		t.Added += e.D - e.C
	}
	t.hunks = hunksOf(edits, len(old), len(now))
	return t
}

// Sum returns the digest of a file as it is in the layer now. For anything but a file it is the
// digest of an empty one.
func (r *Reader) Sum(c review.Change) (beneath.Digest, error) {
	if c.New.Form != beneath.File {
		return beneath.DigestOfText(""), nil
	}
	f, err := r.nowDir(c.Path).OpenSeen(c.Path, c.New.Mark)
	if err != nil {
		return beneath.Digest{}, err
	}
	defer f.Close()
	return beneath.DigestOf(f, c.New.Size)
}

func (r *Reader) readSide(d *beneath.Dir, path string, e beneath.Entry) (text, left string, err error) {
	switch {
	case e.Form == beneath.Link:
		return e.Target, "", nil
	case e.Form != beneath.File:
		return "", "", nil
	case e.Size > review.MaxText:
		return "", fmt.Sprintf("it has more than %d MiB", review.MaxText>>20), nil
	}
	f, err := d.OpenSeen(path, e.Mark)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	b, err := store.ReadAll(f, review.MaxText)
	if err != nil {
		return "", "", fmt.Errorf("read %s: %w", quote.Path(path), err)
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
func (p *Patch) Write(c review.Change, t Text) error {
	if err := p.writeConflict(c); err != nil {
		return err
	}
	if c.New.Form == beneath.Directory && !c.MakesWay() || c.Kind == review.Deleted && c.Old.Form == beneath.Directory {
		if c.Implied {
			return nil
		}
		return p.writeRemark(c, "a directory")
	}
	if t.Left != "" {
		return p.writeRemark(c, t.Left)
	}
	var b strings.Builder
	parts := partsOf(c)
	for _, part := range parts {
		if len(parts) > 1 {
			side := newText(nil, t.now)
			if part.Kind == review.Deleted {
				side = newText(t.old, nil)
			}
			p.writeFile(&b, part, side)
			continue
		}
		p.writeFile(&b, part, t)
	}
	_, err := io.WriteString(p.W, b.String())
	return err
}

// partsOf returns the changes as git knows them: if something else replaces a file, one goes and
// the other comes.
func partsOf(c review.Change) []review.Change {
	if c.Kind != review.Type || c.Old.Form == beneath.Directory {
		return []review.Change{c}
	}
	gone, come := c, c
	gone.Kind, gone.New = review.Deleted, beneath.Entry{}
	if c.MakesWay() {
		return []review.Change{gone} // the contents of the directory come by themselves
	}
	come.Kind, come.Old = review.Added, beneath.Entry{}
	return []review.Change{gone, come}
}

// writeConflict writes a remark about a conflict before the change.
func (p *Patch) writeConflict(c review.Change) error {
	if c.Conflict == "" || c.Implied {
		return nil
	}
	_, err := fmt.Fprintf(p.W, "# CONFLICT %s: %s\n", p.remarkName(c), c.Conflict)
	return err
}

func (p *Patch) gitName(side, path string) string {
	if p.Prefix != "" {
		path = strings.TrimPrefix(p.Prefix, "/") + "/" + path
	}
	return quote.Path(side + "/" + path)
}

// remarkName returns the name of a changed path in a remark.
func (p *Patch) remarkName(c review.Change) string {
	if p.Prefix != "" {
		return quote.Path(p.Prefix + "/" + c.Path)
	}
	return quote.Path(c.Path)
}

func (p *Patch) writeRemark(c review.Change, why string) error {
	_, err := fmt.Fprintf(p.W, "# %s %s: not shown, %s (%d bytes, were %d)\n", c.Kind, p.remarkName(c), why, c.New.Size, c.Old.Size)
	return err
}

func (p *Patch) writeFile(b *strings.Builder, c review.Change, t Text) {
	sameForGit := c.Old.Form == c.New.Form && gitMode(c.Old) == gitMode(c.New)
	if mode, other := c.Chmod(); sameForGit && (other || len(t.hunks) == 0) {
		fmt.Fprintf(b, "# mode of %s: %03o, was %03o, which git does not keep\n", p.remarkName(c), mode, c.Old.Mode)
	}
	if sameForGit && len(t.hunks) == 0 {
		return
	}
	from, to := p.writeHeader(b, c)
	if len(t.hunks) == 0 {
		return
	}
	fmt.Fprintf(b, "--- %s\n+++ %s\n", withTab(from), withTab(to))
	for _, h := range t.hunks {
		h.writeTo(b, t.old, t.now, p.showLine)
	}
}

// writeHeader writes the lines before the hunks of a file, and returns the names for them.
func (p *Patch) writeHeader(b *strings.Builder, c review.Change) (from, to string) {
	from, to = p.gitName("a", c.Path), p.gitName("b", c.Path)
	fmt.Fprintf(b, "diff --git %s %s\n", from, to)
	switch {
	case c.Old.Form == beneath.Nothing || c.Old.Form == beneath.Directory:
		fmt.Fprintf(b, "new file mode %s\n", gitMode(c.New))
		from = "/dev/null"
	case c.Kind == review.Deleted:
		fmt.Fprintf(b, "deleted file mode %s\n", gitMode(c.Old))
		to = "/dev/null"
	case gitMode(c.Old) != gitMode(c.New):
		fmt.Fprintf(b, "old mode %s\nnew mode %s\n", gitMode(c.Old), gitMode(c.New))
	}
	return from, to
}

// withTab adds the tab after a name with spaces, by which patch finds its end.
func withTab(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

func (p *Patch) showLine(line string) string {
	if p.Show == nil {
		return line
	}
	shown := p.Show(line)
	p.Changed = p.Changed || shown != line
	return shown
}

func gitMode(e beneath.Entry) string {
	switch {
	case e.Form == beneath.Link:
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

// Merged returns the old text with the chosen hunks, and their number.
func (t Text) Merged(chosen Pick) (text string, hunks int) {
	some := t.pickHunks(chosen)
	return mergeHunks(t.old, t.now, some), len(some)
}

func (t Text) pickHunks(chosen Pick) (some []hunk) {
	for n, h := range t.hunks {
		if removed, added := h.changed(t.old, t.now); chosen(n, removed, added) {
			some = append(some, h)
		}
	}
	return some
}

// PickedOf returns the change that an apply of only some hunks makes: without a new mode. some is
// false if there are none.
func PickedOf(c review.Change, t Text, chosen Pick) (_ review.Change, _ Text, some bool) {
	if !c.HasHunks() {
		return c, t, false
	}
	if c.Old.Form != beneath.Nothing {
		c.New.Mode = c.Old.Mode
	}
	t, some = t.Picked(chosen)
	return c, t, some
}

// Picked returns a text with only some hunks; ok is false if there are none.
func (t Text) Picked(chosen Pick) (_ Text, ok bool) {
	some := t.pickHunks(chosen)
	if len(some) == 0 {
		return t, false
	}
	return newText(t.old, linediff.Lines(mergeHunks(t.old, t.now, some))), true
}

// Compile reads the pattern of --match.
func Compile(pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "--match: %w", err)
	}
	return re, nil
}
