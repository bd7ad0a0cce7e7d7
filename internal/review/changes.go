package review

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Limits of a walk, because the sandbox controls how much a layer contains.
const (
	maxChanges = 1 << 20
	maxDepth   = 200 // directories within each other
	tries      = 3   // for a file that is written just now
)

// Changes lists what differs between the layer and the host, by path.
func (w Workspace) Changes() ([]Change, error) {
	l, err := w.open()
	if err != nil {
		return nil, err
	}
	defer l.close()
	return l.changes()
}

// look is a walk through a layer beside the host's directory.
type look struct {
	Workspace
	upper, host *dir
	record      *record
	names       *names          // see had
	temps       map[string]bool // see underway
	list        []Change
	orphans     []orphan
	hashed      int64 // bytes; see renames

	repositories map[string]bool // directories that git takes for its own, as far as they were seen
}

// place is where in the walk we are.
type place struct {
	path    string // "" at the top
	upper   *dir
	host    *dir   // nil where the host has no such directory
	opaque  bool   // names that only the host has were deleted
	foreign string // why the sandbox has not seen the host's directory
	made    bool   // by the sandbox: nothing in it ever had its name on the host
}

func (w Workspace) open() (*look, error) {
	rec, err := w.Layer.read()
	if err != nil {
		return nil, err
	}
	temps, err := w.Layer.underway()
	if err != nil {
		return nil, err
	}
	host, err := openTop(w.Source)
	if err != nil {
		return nil, spec.WorkspaceError(err)
	}
	upper, err := openTop(w.Layer.Upper())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // it was never started
	}
	if err != nil {
		host.close()
		return nil, err
	}
	return &look{Workspace: w, upper: upper, host: host, record: rec, temps: temps, repositories: map[string]bool{}}, nil
}

// change opens a layer to change it, after it recovers from a command that was killed. A layer
// that was never mounted is empty.
func (w Workspace) change(do func(*look) error) error {
	l, err := w.open()
	if err != nil {
		return err
	}
	defer l.close()
	if l.upper == nil {
		return nil
	}
	if err := l.recover(); err != nil {
		return err
	}
	return do(l)
}

func (l *look) close() {
	l.upper.close()
	l.host.close()
}

func (l *look) changes() ([]Change, error) {
	if l.upper == nil {
		return nil, nil
	}
	l.list, l.orphans, l.repositories = nil, nil, map[string]bool{}
	if err := l.walk(place{upper: l.upper, host: l.host, opaque: l.upper.isOpaque()}); err != nil {
		return nil, fmt.Errorf("look through the changes in %s: %w", l.Source, err)
	}
	slices.SortFunc(l.list, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	l.imply()
	l.renames()
	l.adopt()
	return l.list, nil
}

func (l *look) add(c Change, head heads) error {
	if len(l.list) >= maxChanges {
		return spec.Errorf(nil, "there are more than %d changes", maxChanges).WithHint("name a part of it that is removed inside first, such as what was installed or built")
	}
	if c.Flags = flagsOf(&c, head); l.setsGit(&c) {
		c.Flags = []Flag{{Why: gitRuns}}
	}
	l.list = append(l.list, c)
	return nil
}

// walk compares one directory of the layer with the host's.
func (l *look) walk(p place) error {
	names, err := p.upper.names()
	if err != nil {
		return err
	}
	l.noteRepository(p.path, p.host, names)
	for _, name := range names {
		at := path.Join(p.path, name)
		if slices.Contains(l.Over, at) {
			continue
		}
		if err := l.compare(p, name, at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if !p.opaque || p.host == nil {
		return nil
	}
	below, err := p.host.names()
	if err != nil {
		return err
	}
	for _, name := range below {
		if _, found := slices.BinarySearch(names, name); !found {
			if err := l.deleted(p, name, path.Join(p.path, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare looks at one name that the layer has.
func (l *look) compare(p place, name, at string) error {
	st, there, err := p.upper.stat(name)
	if err != nil || !there {
		return err // it vanished while we looked
	}
	if p.upper.isWhiteout(name, &st) {
		return l.deleted(p, name, at)
	}
	now, err := p.upper.entry(name)
	if err != nil {
		return err
	}
	was, err := p.host.entry(name)
	if err != nil {
		return err
	}
	if now.Form == Directory && strings.Count(at, "/") >= maxDepth {
		return l.add(Change{Path: at, Kind: kindOf(was, now), Old: was, New: now, Refused: "it lies too deep"}, heads{})
	}
	if now.Form == Directory {
		return l.directory(p, name, Change{Path: at, Old: was, New: now})
	}
	if was.Form == Directory {
		if err := l.deleted(p, name, at); err != nil {
			return err
		}
		if n := len(l.list); n > 0 && l.list[n-1].Path == at { // the directory itself comes last
			l.list = l.list[:n-1]
		}
	}
	for range tries {
		err = l.file(p, name, Change{Path: at, Old: was, New: now})
		if !errors.Is(err, spec.ErrConflict) {
			return err
		}
		if now, err = p.upper.entry(name); err != nil {
			return err
		}
	}
	return l.add(Change{Path: at, Kind: kindOf(was, now), Old: was, New: now, Refused: "it is being written just now"}, heads{})
}

// directory goes into a directory of the layer.
func (l *look) directory(p place, name string, c Change) error {
	upper, err := p.upper.sub(name)
	if err != nil {
		c.Kind, c.Refused = kindOf(c.Old, c.New), "it cannot be opened: "+reason(err)
		return l.add(c, heads{})
	}
	defer upper.close()
	before := len(l.list)
	next := place{path: c.Path, upper: upper, foreign: p.foreign, opaque: p.opaque || upper.isOpaque()}
	next.made = p.made || upper.isOpaque() || !upper.isCopy(".")
	switch {
	case c.Old.Form != Directory:
		c.Kind = kindOf(c.Old, c.New)
		c.Conflict = l.conflict(p, name, c)
		if err := l.add(c, heads{}); err != nil {
			return err
		}
		next.foreign = ""
		if c.Conflict != "" && (c.Old.Form != Nothing || p.foreign != "") {
			next.foreign = "there is something else at " + Quote(c.Path) + " on the host"
		}
	default:
		if next.host, err = p.host.sub(name); err != nil {
			c.Kind, c.Refused = Modified, "it cannot be opened on the host: "+reason(err)
			return l.add(c, heads{})
		}
		defer next.host.close()
		next.opaque = next.opaque && !l.isNew(p.host, name)
		if l.isOther(p.host, name, c) {
			next.foreign = l.other(c.Path)
		}
		if inside, host := l.chmods(p.host, name, c); inside && !next.opaque {
			c.Kind, c.Conflict = Mode, next.foreign
			if host && c.Conflict == "" {
				c.Conflict = "its mode was changed on the host since " + l.record.since()
			}
			if err := l.add(c, heads{}); err != nil {
				return err
			}
		}
	}
	err = l.walk(next)
	if len(l.list) == before+1 && c.Kind == Added && l.leadsOver(c.Path) {
		l.list = l.list[:before] // it exists only for a mount over the workspace
	}
	return err
}

// leadsOver reports whether a directory contains a path that something is mounted over.
func (l *look) leadsOver(p string) bool {
	return slices.ContainsFunc(l.Over, func(over string) bool { return strings.HasPrefix(over, p+"/") })
}

// isNew reports whether the host made a file or directory after the sandbox began. The sandbox
// has never seen the contents of such a directory, and has not deleted them.
func (l *look) isNew(parent *dir, name string) bool {
	born := parent.bornAt(name)
	return born != 0 && born >= l.record.Since
}

// isOther reports whether another directory may have replaced the host's. A rename updates a directory's
// change time, but not its modification time. Adding names makes both times equal. A chmod looks like a
// rename, but the directory keeps the remembered inode number.
func (l *look) isOther(parent *dir, name string, c Change) bool {
	m := c.Old.Mark
	if m.Changed < l.record.Since || m.Changed == m.Modified || l.record.has(c.Path, m) {
		return false // the last is one that we made, or changed
	}
	return l.was(c.Path).inode != m.Inode || l.isNew(parent, name)
}

func (l *look) other(at string) string {
	return Quote(at) + " was renamed, or is another directory, on the host since " + l.record.since()
}

// file compares anything but a directory. A file that was changed meanwhile is in conflict, and
// must be compared again.
func (l *look) file(p place, name string, c Change) error {
	c.Kind = kindOf(c.Old, c.New)
	if k, ok := l.record.of(c.Path); ok && k.isIn(c.New.Mark) {
		return nil // it was applied as it is, or only copied
	}
	if c.New.Form == Special {
		c.Refused = "it is a device, a socket or a pipe"
		return l.add(c, heads{})
	}
	if c.Old.Form == Special {
		c.Refused = "the host has a device, a socket or a pipe there"
		return l.add(c, heads{})
	}
	var head heads
	var f *os.File
	if c.New.Form == File {
		var err error
		if f, err = p.upper.read(name, c.New.Mark); errors.Is(err, spec.ErrConflict) {
			return err
		} else if err != nil {
			c.Refused = "it cannot be read: " + reason(err)
			return l.add(c, heads{})
		}
		defer f.Close()
		head.now = beginsAs(f)
	}
	same, err := l.same(p, name, c, f)
	if err != nil {
		c.Refused = "what the host has there cannot be read: " + reason(err)
		return l.add(c, head)
	}
	if same && c.Old.Mode == c.New.Mode {
		return nil
	}
	if same {
		c.Kind = Mode
	}
	if c.Kind == Modified {
		head.old = p.host.beganAs(name, c.Old)
	}
	c.Conflict = l.conflict(p, name, c)
	if same && c.Conflict != "" && l.brought(p.host, name, c) {
		return nil
	}
	return l.add(c, head)
}

// same reports whether both sides of a change have the same content.
func (l *look) same(p place, name string, c Change, f *os.File) (bool, error) {
	if c.Old.Form != c.New.Form {
		return false, nil
	}
	if c.New.Form == Link {
		return c.Old.Target == c.New.Target, nil
	}
	if c.Old.Size != c.New.Size {
		return false, nil
	}
	g, err := p.host.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	defer g.Close()
	return sameData(f, g)
}

// deleted lists the host's entry at a name that the sandbox does not see.
func (l *look) deleted(p place, name, at string) error {
	was, err := p.host.entry(name)
	if err != nil || was.Form == Nothing || slices.Contains(l.Over, at) || l.temps[at] {
		return err
	}
	if k, ok := l.record.of(at); ok && k.Gone {
		return nil // it was applied; the sandbox has never seen the file that is there now
	}
	c := Change{Path: at, Kind: Deleted, Old: was}
	if was.Form == Special {
		c.Refused = "the host has a device, a socket or a pipe there"
		return l.add(c, heads{})
	}
	if was.Form == Directory {
		if l.isOther(p.host, name, c) {
			p.foreign = l.other(at)
		}
		below, err := p.host.sub(name)
		if err != nil {
			c.Refused = "it cannot be opened on the host: " + reason(err)
			return l.add(c, heads{})
		}
		defer below.close()
		names, err := below.names()
		if err != nil {
			return err
		}
		l.noteRepository(at, below, names)
		for _, n := range names {
			if err := l.deleted(place{path: at, host: below, foreign: p.foreign}, n, path.Join(at, n)); err != nil {
				return err
			}
		}
	}
	c.Conflict = l.conflict(p, name, c)
	return l.add(c, heads{})
}

// conflict returns a description of the host's change since the state that the sandbox changed;
// empty if none.
func (l *look) conflict(p place, name string, c Change) string {
	if p.foreign != "" {
		return p.foreign
	}
	if k, ok := l.record.of(c.Path); ok && c.Old.Form != Directory && !k.Moved {
		if k.Host != c.Old.Mark {
			return "changed on the host since " + k.last()
		}
		if c.Old.Form != Nothing || k.Gone { // after a deletion the sandbox saw nothing that came since
			return ""
		}
	}
	switch c.Old.Form {
	case Nothing:
		return l.withdrawn(p, name, c)
	case Directory: // its contents are judged one by one
		if l.isNew(p.host, name) && !l.record.has(c.Path, c.Old.Mark) {
			return "made on the host since " + l.record.since()
		}
		return ""
	}
	if c.Old.Mark.Changed >= l.record.Since {
		return "changed on the host since " + l.record.since()
	}
	return ""
}

func kindOf(was, now Entry) Kind {
	switch {
	case was.Form == Nothing:
		return Added
	case now.Form == Nothing:
		return Deleted
	case was.Form != now.Form:
		return Type
	}
	return Modified
}

// imply marks directories that come or go with their contents, and counts deleted names. The list
// is sorted.
func (l *look) imply() {
	within, deleted := map[string]bool{}, map[string]int{}
	for _, c := range l.list {
		if c.Kind == Deleted {
			deleted[path.Dir(c.Path)]++
		}
		for d := path.Dir(c.Path); d != "." && !within[d]; d = path.Dir(d) {
			within[d] = true
		}
	}
	for i := range l.list {
		c := &l.list[i]
		dirOnly := c.Kind == Added && c.New.Form == Directory || c.Kind == Deleted && c.Old.Form == Directory
		c.Implied = dirOnly && within[c.Path]
		if c.Kind == Deleted || c.Kind == Type {
			c.within = deleted[c.Path]
		}
	}
}

// reason returns an error's text without the part that the caller adds.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return strings.TrimSpace(err.Error())
}
