package checkpoint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Merging says how to merge two states.
type Merging struct {
	// Trees selects the trees to merge. Of the others ours stays.
	Trees func(tree string) bool
	// Ours selects the paths of which ours always stays.
	Ours func(tree, path string) bool
	// Below reads a text that base shows at a path without containing it, such as the host's file
	// below a layer. It returns nil if the file does not exist or has changed since. May be nil.
	Below func(tree, path string) (*Text, error)
}

// Merged is the result of a merge.
type Merged struct {
	Trees     []Tree
	Conflicts []Change
	Besides   []Change // paths that differ from theirs
	Texts     []Change // paths whose texts were merged line by line

	texts []*Entry // of those, in the trees
	lines []string // their contents
}

// Merge applies to ours the changes that theirs made to base. It merges a text line by line if
// both sides changed different places of it. For any other path it is a conflict if both sides
// changed it differently. So is a change in a directory that the other side removed or replaced.
// A merge with conflicts has no merged state. All states are of one shelf.
func Merge(base, ours, theirs []Tree, packs *Packs, how Merging) (out Merged, err error) {
	room := int64(maxTexts)
	for _, o := range ours {
		if !how.Trees(o.Name) {
			out.Trees = append(out.Trees, o)
			continue
		}
		m := merger{base: newSide(base, o.Name), ours: newSide(ours, o.Name), theirs: newSide(theirs, o.Name), packs: packs, room: &room}
		m.stays = func(path string) bool { return how.Ours(o.Name, path) }
		m.below = func(path string) (*Text, error) {
			if how.Below == nil {
				return nil, nil
			}
			return how.Below(o.Name, path)
		}
		if err := m.merge(&out, o); err != nil {
			return Merged{}, fmt.Errorf("%s: %w", o.Name, err)
		}
	}
	if len(out.Conflicts) > 0 {
		out = Merged{Conflicts: out.Conflicts, Besides: out.Besides}
	}
	return out, nil
}

// side is one state's directory.
type side map[string]*Entry

func newSide(trees []Tree, name string) side {
	t := find(trees, name)
	return t.ByPath()
}

func (s side) hasDir(at string) bool {
	if at == "." {
		at = ""
	}
	return s[at] != nil && s[at].isDir()
}

// merger merges one directory.
type merger struct {
	base, ours, theirs side
	packs              *Packs
	stays              func(path string) bool
	conflicts          map[string]bool

	below  func(path string) (*Text, error)
	texts  map[string]string // the merged texts, by path
	linked map[string]bool   // files that have further names
	room   *int64            // for texts that are still to be read
}

func (m *merger) merge(out *Merged, o Tree) error {
	mine, err := m.changed(m.ours)
	if err != nil {
		return err
	}
	other, err := m.changed(m.theirs)
	if err != nil {
		return err
	}
	m.conflicts, m.texts = map[string]bool{}, map[string]string{}
	result := maps.Clone(m.ours)
	if result[""] == nil && m.theirs[""] != nil { // ours did not exist yet
		result[""] = m.theirs[""]
	}
	for at := range other {
		if err := m.take(result, mine, at); err != nil {
			return err
		}
	}
	m.above(mine, other)
	m.above(other, mine)
	maps.DeleteFunc(m.conflicts, func(_ string, is bool) bool { return !is })
	for _, at := range slices.Sorted(maps.Keys(m.conflicts)) {
		out.Conflicts = append(out.Conflicts, Change{Tree: o.Name, Path: at, Kind: Modified})
	}
	tree := Tree{Name: o.Name, Entries: m.entries(result)}
	out.Trees = append(out.Trees, tree)
	m.tell(out, tree)
	for at := range union(result, m.theirs) {
		_, together := m.texts[at] // a name that neither side has
		same, err := !together, error(nil)
		if same {
			same, err = m.alike(result[at], m.sideOf(result[at]), m.theirs[at], m.theirs)
		}
		if err != nil {
			return err
		}
		if !same && at != "" {
			out.Besides = append(out.Besides, Change{Tree: o.Name, Path: at, Kind: Modified})
		}
	}
	return nil
}

// union returns the paths of both.
func union(a, b side) map[string]bool {
	all := map[string]bool{}
	for at := range a {
		all[at] = true
	}
	for at := range b {
		all[at] = true
	}
	return all
}

// sideOf returns the side that an entry was taken from.
func (m *merger) sideOf(e *Entry) side {
	if e != nil && m.theirs[e.Path] == e {
		return m.theirs
	}
	return m.ours
}

// changes are the paths that a side has changed. True marks a directory that was removed or
// replaced; the other side cannot have anything below it.
type changes map[string]bool

// changed compares a side with their common base.
func (m *merger) changed(to side) (changes, error) {
	list := changes{}
	look := func(at string) error {
		if at == "" || m.stays(at) {
			return nil
		}
		was, now := m.base[at], to[at]
		same, err := m.alike(was, m.base, now, to)
		if err != nil || same {
			return err
		}
		list[at] = was != nil && (now == nil || !now.isDir() || !was.isDir() || hides(was) != hides(now))
		return nil
	}
	for at := range union(m.base, to) {
		if err := look(at); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// take applies to the result the change that theirs made at a path.
func (m *merger) take(result side, mine changes, at string) error {
	o, t := m.ours[at], m.theirs[at]
	if t != nil && t.Left || o != nil && o.Left {
		return nil // it is not kept: a socket, or an unreadable file
	}
	same, err := m.alike(o, m.ours, t, m.theirs)
	if err != nil || same {
		return err
	}
	if _, both := mine[at]; both {
		e, err := m.text(at)
		m.conflicts[at] = e == nil
		if e == nil || err != nil {
			return err
		}
		result[at] = e
		return nil
	}
	if t == nil {
		delete(result, at)
		return nil
	}
	result[at] = t
	return nil
}

// above finds changes of one side in directories that the other removed.
func (m *merger) above(gone, changed changes) {
	for at := range changed {
		for d := path.Dir(at); d != "."; d = path.Dir(d) {
			_, alsoHere := changed[d]
			if gone[d] && !alsoHere {
				m.conflicts[at] = true
			}
		}
	}
}

// Attributes that the kernel sets in the layer of an overlay. Attributes that only name an origin do not
// count as a difference.
const (
	overlayAttr = "user.overlay."
	opaqueAttr  = "user.overlay.opaque"
)

var originAttrs = []string{overlayAttr + "origin", overlayAttr + "impure", overlayAttr + "uuid"}

// hides reports whether a directory hides everything below it.
func hides(e *Entry) bool {
	return slices.ContainsFunc(e.Attrs, func(a Attr) bool { return a.Name == opaqueAttr && a.Value == "y" })
}

// ShowsBelow reports whether an entry of an overlay's layer lets the directory below show
// through.
func (e *Entry) ShowsBelow() bool { return e.isDir() && !hides(e) }

// telling returns the attributes that make a difference.
func telling(attrs []Attr) []Attr {
	return slices.DeleteFunc(slices.Clone(attrs), func(a Attr) bool { return slices.Contains(originAttrs, a.Name) })
}

// alike reports whether two sides have the same at a path.
func (m *merger) alike(a *Entry, of side, b *Entry, in side) (bool, error) {
	switch {
	case a == nil || b == nil:
		return a == b, nil
	case a == b:
		return true, nil
	case a.Mode != b.Mode || a.Left != b.Left:
		return false, nil
	case a.isDir():
		return slices.Equal(telling(a.Attrs), telling(b.Attrs)), nil
	}
	x, y := *first(a, of), *first(b, in)
	x.Attrs, y.Attrs = telling(x.Attrs), telling(y.Attrs)
	return equal(&x, &y, m.packs)
}

// entries lists the result in the order of a walk. It drops entries without a directory: their
// directory went, and only they were to stay as ours.
func (m *merger) entries(result side) []Entry {
	paths := slices.SortedFunc(maps.Keys(result), byWalk)
	var list []Entry
	kept := side{}
	for _, at := range paths {
		if at != "" && !kept.hasDir(path.Dir(at)) {
			continue
		}
		e := *result[at]
		if e.Same != "" {
			m.detach(&e, result[at], kept)
		}
		list = append(list, e)
		kept[at] = result[at]
	}
	return list
}

// detach turns a further name of a file into a separate file, unless the first name is kept too.
func (m *merger) detach(e, from *Entry, kept side) {
	one := m.sideOf(from)[e.Same]
	if one == nil || kept[e.Same] == one {
		return
	}
	c := *one
	c.Path = e.Path
	*e = c
}

// byWalk orders paths as in a walk: a directory before its contents, and those before its next
// neighbour.
func byWalk(a, b string) int {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

// BeginMerged starts a checkpoint of a merged state of the shelf. Its only new contents are
// merged texts. Its root layer is that of one of the two states. Take is not needed.
func (s Shelf) BeginMerged(p Point, merged Merged, cause string) (*Making, error) {
	m, err := s.begin("", cause)
	if err != nil {
		return nil, err
	}
	m.aside = true
	m.point.Parent, m.point.CreatedAt, m.point.Left = p.Number, time.Now().UTC(), p.Left
	for i, e := range merged.texts {
		if e.Content, err = m.pack.addText(merged.lines[i]); err != nil {
			_, err = m.End(err)
			return nil, err
		}
	}
	m.holds(merged.Trees)
	return m, nil
}
