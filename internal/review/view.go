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

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
	"github.com/bothy-dev/bothy/internal/review/risk"
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
	l, err := w.OpenView()
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.FindChanges()
}

// View is a walk through a layer beside the host's directory.
type View struct {
	Workspace
	Upper, Host *beneath.Dir
	Record      *record.Record
	names       *record.Names   // see Had
	Temps       map[string]bool // of an apply; see [record.Layer.Underway]
	list        []Change
	orphans     []orphan
	hashed      int64 // bytes; see renames

	repositories risk.Repositories
}

// heads are the kinds of runnable file on each side of a change, by their first bytes.
type heads struct{ old, now string }

// place is where in the walk we are.
type place struct {
	path    string // "" at the top
	upper   *beneath.Dir
	host    *beneath.Dir // nil where the host has no such directory
	opaque  bool         // names that only the host has were deleted
	foreign string       // why the sandbox has not seen the host's directory
	made    bool         // by the sandbox: nothing in it ever had its name on the host
}

func (w Workspace) OpenView() (*View, error) {
	rec, err := w.Layer.Read()
	if err != nil {
		return nil, err
	}
	temps, err := w.Layer.Underway()
	if err != nil {
		return nil, err
	}
	host, err := beneath.OpenTop(w.Source)
	if err != nil {
		return nil, spec.WorkspaceError(err)
	}
	upper, err := beneath.OpenTop(w.Layer.Upper())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // it was never started
	}
	if err != nil {
		host.Close()
		return nil, err
	}
	return &View{Workspace: w, Upper: upper, Host: host, Record: rec, Temps: temps, repositories: risk.Repositories{}}, nil
}

func (l *View) Close() {
	l.Upper.Close()
	l.Host.Close()
}

func (l *View) FindChanges() ([]Change, error) {
	if l.Upper == nil {
		return nil, nil
	}
	l.list, l.orphans, l.repositories = nil, nil, risk.Repositories{}
	if err := l.compareDir(place{upper: l.Upper, host: l.Host, opaque: l.Upper.IsOpaque()}); err != nil {
		return nil, fmt.Errorf("look through the changes in %s: %w", l.Source, err)
	}
	slices.SortFunc(l.list, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	l.markImplied()
	l.renames()
	l.findOrigins()
	return l.list, nil
}

func (l *View) addChange(c Change, head heads) error {
	if len(l.list) >= maxChanges {
		return spec.Errorf(nil, "there are more than %d changes", maxChanges).WithHint("first remove installed or built files inside")
	}
	c.Flags = l.repositories.Flags(risk.Case{
		Path: c.Path, Old: c.Old, New: c.New, SameContent: c.Kind == Mode, OldHead: head.old, NewHead: head.now,
	})
	l.list = append(l.list, c)
	return nil
}

// compareDir compares one directory of the layer with the host's.
func (l *View) compareDir(p place) error {
	names, err := p.upper.Names()
	if err != nil {
		return err
	}
	l.repositories.Note(p.path, p.host, names)
	for _, name := range names {
		at := path.Join(p.path, name)
		if slices.Contains(l.Over, at) {
			continue
		}
		if err := l.compareName(p, name, at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if !p.opaque || p.host == nil {
		return nil
	}
	below, err := p.host.Names()
	if err != nil {
		return err
	}
	for _, name := range below {
		if _, found := slices.BinarySearch(names, name); !found {
			if err := l.addDeleted(p, name, path.Join(p.path, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareName looks at one name that the layer has.
func (l *View) compareName(p place, name, at string) error {
	st, there, err := p.upper.Stat(name)
	if err != nil || !there {
		return err // it vanished while we looked
	}
	if p.upper.IsWhiteout(name, &st) {
		return l.addDeleted(p, name, at)
	}
	now, err := p.upper.Entry(name)
	if err != nil {
		return err
	}
	was, err := p.host.Entry(name)
	if err != nil {
		return err
	}
	if now.Form == beneath.Directory && strings.Count(at, "/") >= maxDepth {
		return l.addChange(Change{Path: at, Kind: kindOf(was, now), Old: was, New: now, Refused: "it lies too deep"}, heads{})
	}
	if now.Form == beneath.Directory {
		return l.addDirectory(p, name, Change{Path: at, Old: was, New: now})
	}
	if was.Form == beneath.Directory {
		if err := l.addDeleted(p, name, at); err != nil {
			return err
		}
		if n := len(l.list); n > 0 && l.list[n-1].Path == at { // the directory itself comes last
			l.list = l.list[:n-1]
		}
	}
	for range tries {
		err = l.addFile(p, name, Change{Path: at, Old: was, New: now})
		if !errors.Is(err, spec.ErrConflict) {
			return err
		}
		if now, err = p.upper.Entry(name); err != nil {
			return err
		}
	}
	return l.addChange(Change{Path: at, Kind: kindOf(was, now), Old: was, New: now, Refused: "it is being written just now"}, heads{})
}

// addDirectory goes into a directory of the layer.
func (l *View) addDirectory(p place, name string, c Change) error {
	upper, err := p.upper.OpenDir(name)
	if err != nil {
		c.Kind, c.Refused = kindOf(c.Old, c.New), "it cannot be opened: "+beneath.Reason(err)
		return l.addChange(c, heads{})
	}
	defer upper.Close()
	before := len(l.list)
	next := place{path: c.Path, upper: upper, foreign: p.foreign, opaque: p.opaque || upper.IsOpaque()}
	next.made = p.made || upper.IsOpaque() || !upper.IsCopy(".")
	switch {
	case c.Old.Form != beneath.Directory:
		c.Kind = kindOf(c.Old, c.New)
		c.Conflict = l.findConflict(p, name, c)
		if err := l.addChange(c, heads{}); err != nil {
			return err
		}
		next.foreign = ""
		if c.Conflict != "" && (c.Old.Form != beneath.Nothing || p.foreign != "") {
			next.foreign = "there is something else at " + quote.Path(c.Path) + " on the host"
		}
	default:
		if next.host, err = p.host.OpenDir(name); err != nil {
			c.Kind, c.Refused = Modified, "it cannot be opened on the host: "+beneath.Reason(err)
			return l.addChange(c, heads{})
		}
		defer next.host.Close()
		next.opaque = next.opaque && !l.isNew(p.host, name)
		if l.isOther(p.host, name, c) {
			next.foreign = l.otherDirectory(c.Path)
		}
		if inside, host := l.ModeChanges(p.host, name, c); inside && !next.opaque {
			c.Kind, c.Conflict = Mode, next.foreign
			if host && c.Conflict == "" {
				c.Conflict = "its mode was changed on the host since " + l.Record.SinceText()
			}
			if err := l.addChange(c, heads{}); err != nil {
				return err
			}
		}
	}
	err = l.compareDir(next)
	if len(l.list) == before+1 && c.Kind == Added && l.leadsOver(c.Path) {
		l.list = l.list[:before] // it exists only for a mount over the workspace
	}
	return err
}

// leadsOver reports whether a directory contains a path that something is mounted over.
func (l *View) leadsOver(p string) bool {
	return slices.ContainsFunc(l.Over, func(over string) bool { return strings.HasPrefix(over, p+"/") })
}

// isNew reports whether the host made a file or directory after the sandbox began. The sandbox
// has never seen the contents of such a directory, and has not deleted them.
func (l *View) isNew(parent *beneath.Dir, name string) bool {
	born := parent.BornAt(name)
	return born != 0 && born >= l.Record.Since
}

// isOther reports whether another directory may have replaced the host's. A rename updates a directory's
// change time, but not its modification time. Adding names makes both times equal. A chmod looks like a
// rename, but the directory keeps the remembered inode number.
func (l *View) isOther(parent *beneath.Dir, name string, c Change) bool {
	m := c.Old.Mark
	if m.Changed < l.Record.Since || m.Changed == m.Modified || l.Record.HasDir(c.Path, m) {
		return false // the last is one that we made, or changed
	}
	return l.stateThen(c.Path).Inode != m.Inode || l.isNew(parent, name)
}

func (l *View) otherDirectory(at string) string {
	return quote.Path(at) + " was renamed, or is another directory, on the host since " + l.Record.SinceText()
}

// addFile compares anything but a directory. A file that was changed meanwhile is in conflict, and
// must be compared again.
func (l *View) addFile(p place, name string, c Change) error {
	c.Kind = kindOf(c.Old, c.New)
	if k, ok := l.Record.Find(c.Path); ok && k.IsIn(c.New.Mark) {
		return nil // it was applied as it is, or only copied
	}
	if c.New.Form == beneath.Special {
		c.Refused = "it is a device, a socket or a pipe"
		return l.addChange(c, heads{})
	}
	if c.Old.Form == beneath.Special {
		c.Refused = "the host has a device, a socket or a pipe there"
		return l.addChange(c, heads{})
	}
	var head heads
	var f *os.File
	if c.New.Form == beneath.File {
		var err error
		if f, err = p.upper.OpenSeen(name, c.New.Mark); errors.Is(err, spec.ErrConflict) {
			return err
		} else if err != nil {
			c.Refused = "it cannot be read: " + beneath.Reason(err)
			return l.addChange(c, heads{})
		}
		defer f.Close()
		head.now = risk.HeadOf(f)
	}
	same, err := l.hasSameContent(p, name, c, f)
	if err != nil {
		c.Refused = "what the host has there cannot be read: " + beneath.Reason(err)
		return l.addChange(c, head)
	}
	if same && c.Old.Mode == c.New.Mode {
		return nil
	}
	if same {
		c.Kind = Mode
	}
	if c.Kind == Modified {
		head.old = risk.HeadOnHost(p.host, name, c.Old)
	}
	c.Conflict = l.findConflict(p, name, c)
	if same && c.Conflict != "" && l.cameAnotherWay(p.host, name, c) {
		return nil
	}
	return l.addChange(c, head)
}

// hasSameContent reports whether both sides of a change have the same content.
func (l *View) hasSameContent(p place, name string, c Change, f *os.File) (bool, error) {
	if c.Old.Form != c.New.Form {
		return false, nil
	}
	if c.New.Form == beneath.Link {
		return c.Old.Target == c.New.Target, nil
	}
	if c.Old.Size != c.New.Size {
		return false, nil
	}
	g, err := p.host.Open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	defer g.Close()
	return beneath.SameData(f, g)
}

// addDeleted lists the host's entry at a name that the sandbox does not see.
func (l *View) addDeleted(p place, name, at string) error {
	was, err := p.host.Entry(name)
	if err != nil || was.Form == beneath.Nothing || slices.Contains(l.Over, at) || l.Temps[at] {
		return err
	}
	if k, ok := l.Record.Find(at); ok && k.Gone {
		return nil // it was applied; the sandbox has never seen the file that is there now
	}
	c := Change{Path: at, Kind: Deleted, Old: was}
	if was.Form == beneath.Special {
		c.Refused = "the host has a device, a socket or a pipe there"
		return l.addChange(c, heads{})
	}
	if was.Form == beneath.Directory {
		if l.isOther(p.host, name, c) {
			p.foreign = l.otherDirectory(at)
		}
		below, err := p.host.OpenDir(name)
		if err != nil {
			c.Refused = "it cannot be opened on the host: " + beneath.Reason(err)
			return l.addChange(c, heads{})
		}
		defer below.Close()
		names, err := below.Names()
		if err != nil {
			return err
		}
		l.repositories.Note(at, below, names)
		for _, n := range names {
			if err := l.addDeleted(place{path: at, host: below, foreign: p.foreign}, n, path.Join(at, n)); err != nil {
				return err
			}
		}
	}
	c.Conflict = l.findConflict(p, name, c)
	return l.addChange(c, heads{})
}

// findConflict returns a description of the host's change since the state that the sandbox changed;
// empty if none.
func (l *View) findConflict(p place, name string, c Change) string {
	if p.foreign != "" {
		return p.foreign
	}
	if k, ok := l.Record.Find(c.Path); ok && c.Old.Form != beneath.Directory && !k.Moved {
		if k.Host != c.Old.Mark {
			return "changed on the host since " + k.LastKnown()
		}
		if c.Old.Form != beneath.Nothing || k.Gone { // after a deletion the sandbox saw nothing that came since
			return ""
		}
	}
	switch c.Old.Form {
	case beneath.Nothing:
		return l.withdrawn(p, name, c)
	case beneath.Directory: // its contents are judged one by one
		if l.isNew(p.host, name) && !l.Record.HasDir(c.Path, c.Old.Mark) {
			return "made on the host since " + l.Record.SinceText()
		}
		return ""
	}
	if c.Old.Mark.Changed >= l.Record.Since {
		return "changed on the host since " + l.Record.SinceText()
	}
	return ""
}

func kindOf(was, now beneath.Entry) Kind {
	switch {
	case was.Form == beneath.Nothing:
		return Added
	case now.Form == beneath.Nothing:
		return Deleted
	case was.Form != now.Form:
		return Type
	}
	return Modified
}

// markImplied marks directories that come or go with their contents, and counts deleted names. The list
// is sorted.
func (l *View) markImplied() {
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
		dirOnly := c.Kind == Added && c.New.Form == beneath.Directory || c.Kind == Deleted && c.Old.Form == beneath.Directory
		c.Implied = dirOnly && within[c.Path]
		if c.Kind == Deleted || c.Kind == Type {
			c.DeletedIn = deleted[c.Path]
		}
	}
}

// IsSame reports whether a directory of the layer that hides the host's differs in nothing from it. in
// and host are the directories that contain both; host is nil if there is none.
func (l *View) IsSame(in, host *beneath.Dir, at string) (bool, error) {
	l.list = nil
	p := place{path: path.Dir(at), upper: in, host: host}
	if p.path == "." {
		p.path = ""
	}
	err := l.compareName(p, path.Base(at), at)
	return err == nil && len(l.list) == 0, err
}
