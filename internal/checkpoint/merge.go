package checkpoint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Merging says how two states are brought together.
type Merging struct {
	// Trees tells which trees are brought together. Of the others ours stays.
	Trees func(tree string) bool
	// Ours tells the paths of which ours stays, whatever became of them.
	Ours func(tree, path string) bool
	// Below reads a text that base shows at a path without holding it, such as that of the host
	// below a layer; nil if there is none, or none that is still what it was then. May be nil.
	Below func(tree, path string) (*Text, error)
}

// Merged is what two states are together.
type Merged struct {
	Trees     []Tree
	Conflicts []Change
	Besides   []Change // paths that are otherwise than theirs has them
	Texts     []Change // paths whose texts were brought together, line by line

	texts []*Entry // of those, in the trees
	lines []string // what they hold
}

// Merge brings two states together that both come from a third: what theirs has made of
// base is done to ours. A text that both have changed has what both did, if that is in
// different places of it; of any other path it is a conflict if both have changed it, and not in
// the same way, as is what one has changed in a directory that the other removed or put
// something else in the place of. If there are conflicts there is no merged state. All are of
// one shelf.
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

// side is what a directory holds by one of the states.
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

// merger brings one directory together.
type merger struct {
	base, ours, theirs side
	packs              *Packs
	stays              func(path string) bool
	conflicts          map[string]bool

	below  func(path string) (*Text, error)
	texts  map[string]string // that were brought together, by their paths
	linked map[string]bool   // files that have further names
	room   *int64            // for texts that are read yet
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
	if result[""] == nil && m.theirs[""] != nil { // ours was not there yet
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
		_, together := m.texts[at] // which is what neither has
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

// union are the paths that either has.
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

// sideOf is the side that an entry was taken from.
func (m *merger) sideOf(e *Entry) side {
	if e != nil && m.theirs[e.Path] == e {
		return m.theirs
	}
	return m.ours
}

// changes are the paths that a side has changed; those that are true can have nothing of
// the other side below them: a directory that was removed, or is another one.
type changes map[string]bool

// changed compares a side with what both come from.
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

// take does to the result what theirs has done at a path.
func (m *merger) take(result side, mine changes, at string) error {
	o, t := m.ours[at], m.theirs[at]
	if t != nil && t.Left || o != nil && o.Left {
		return nil // it is not kept: a socket, or what nobody could read
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

// above finds what one side has changed within what the other has taken away.
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

// Attributes that the kernel gives to what lies in the layer of an overlay. Those that
// only say where something came from are no difference.
const (
	overlayAttr = "user.overlay."
	opaqueAttr  = "user.overlay.opaque"
)

var originAttrs = []string{overlayAttr + "origin", overlayAttr + "impure", overlayAttr + "uuid"}

// hides tells of a directory that nothing below it shows through.
func hides(e *Entry) bool {
	return slices.ContainsFunc(e.Attrs, func(a Attr) bool { return a.Name == opaqueAttr && a.Value == "y" })
}

// ShowsBelow tells whether, in the layer of an overlay, what lies below an entry shows through it.
func (e *Entry) ShowsBelow() bool { return e.isDir() && !hides(e) }

// telling are the attributes that make a difference.
func telling(attrs []Attr) []Attr {
	return slices.DeleteFunc(slices.Clone(attrs), func(a Attr) bool { return slices.Contains(originAttrs, a.Name) })
}

// alike tells whether two sides have the same at a path.
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

// entries lists the result in the order of a walk. What lies in no directory goes: it
// lay in one of which only that part was to stay.
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

// detach makes a file of its own of a further name of one, unless that has come along.
func (m *merger) detach(e, from *Entry, kept side) {
	one := m.sideOf(from)[e.Same]
	if one == nil || kept[e.Same] == one {
		return
	}
	c := *one
	c.Path = e.Path
	*e = c
}

// byWalk orders paths as a walk comes by them: a directory before what lies in it, and
// that before its next neighbour.
func byWalk(a, b string) int {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

// BeginMerged starts on a checkpoint of a merged state of the shelf, which adds no
// contents but texts that were brought together. Its root layer is that of one of the two;
// what else Take would do is done.
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
