// Package merge compares states of directories, and applies to one state the changes that another made
// to their common base.
package merge

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/packfile"
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
	Trees     []manifest.Tree
	Conflicts []Change
	Besides   []Change // paths that differ from theirs
	Texts     []Change // paths whose texts were merged line by line
	New       []NewContent
}

// NewContent is a merged text that no pack has yet.
type NewContent struct {
	Entry *manifest.Entry // in the trees
	Text  string
}

// Trees applies to ours the changes that theirs made to base. It merges a text line by line if
// both sides changed different places of it. For any other path it is a conflict if both sides
// changed it differently. So is a change in a directory that the other side removed or replaced.
// A merge with conflicts has no merged state. All states are of one shelf.
func Trees(base, ours, theirs []manifest.Tree, packs *packfile.Packs, how Merging) (out Merged, err error) {
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
		if err := m.mergeTree(&out, o); err != nil {
			return Merged{}, fmt.Errorf("%s: %w", o.Name, err)
		}
	}
	if len(out.Conflicts) > 0 {
		out = Merged{Conflicts: out.Conflicts, Besides: out.Besides}
	}
	return out, nil
}

// side is one state's directory.
type side map[string]*manifest.Entry

func newSide(trees []manifest.Tree, name string) side {
	t := manifest.Find(trees, name)
	return t.ByPath()
}

func (s side) hasDir(at string) bool {
	if at == "." {
		at = ""
	}
	return s[at] != nil && s[at].IsDir()
}

// merger merges one directory.
type merger struct {
	base, ours, theirs side
	packs              *packfile.Packs
	stays              func(path string) bool
	conflicts          map[string]bool

	below  func(path string) (*Text, error)
	texts  map[string]string // the merged texts, by path
	linked map[string]bool   // files that have further names
	room   *int64            // for texts that are still to be read
}

func (m *merger) mergeTree(out *Merged, o manifest.Tree) error {
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
		if err := m.takeTheirs(result, mine, at); err != nil {
			return err
		}
	}
	m.findBelowRemoved(mine, other)
	m.findBelowRemoved(other, mine)
	maps.DeleteFunc(m.conflicts, func(_ string, is bool) bool { return !is })
	for _, at := range slices.Sorted(maps.Keys(m.conflicts)) {
		out.Conflicts = append(out.Conflicts, Change{Tree: o.Name, Path: at, Kind: Modified})
	}
	tree := manifest.Tree{Name: o.Name, Entries: m.entries(result)}
	out.Trees = append(out.Trees, tree)
	m.addTexts(out, tree)
	for at := range unionOf(result, m.theirs) {
		_, together := m.texts[at] // a name that neither side has
		same, err := !together, error(nil)
		if same {
			same, err = m.isAlike(result[at], m.sideOf(result[at]), m.theirs[at], m.theirs)
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

// unionOf returns the paths of both.
func unionOf(a, b side) map[string]bool {
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
func (m *merger) sideOf(e *manifest.Entry) side {
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
		same, err := m.isAlike(was, m.base, now, to)
		if err != nil || same {
			return err
		}
		list[at] = was != nil && (now == nil || !now.IsDir() || !was.IsDir() || was.Hides() != now.Hides())
		return nil
	}
	for at := range unionOf(m.base, to) {
		if err := look(at); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// takeTheirs applies to the result the change that theirs made at a path.
func (m *merger) takeTheirs(result side, mine changes, at string) error {
	o, t := m.ours[at], m.theirs[at]
	if t != nil && t.Left || o != nil && o.Left {
		return nil // it is not kept: a socket, or an unreadable file
	}
	same, err := m.isAlike(o, m.ours, t, m.theirs)
	if err != nil || same {
		return err
	}
	if _, both := mine[at]; both {
		e, err := m.mergeText(at)
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

// findBelowRemoved finds changes of one side in directories that the other removed.
func (m *merger) findBelowRemoved(gone, changed changes) {
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
const overlayAttr = "user.overlay."

var originAttrs = []string{overlayAttr + "origin", overlayAttr + "impure", overlayAttr + "uuid"}

// telling returns the attributes that make a difference.
func telling(attrs []manifest.Attr) []manifest.Attr {
	return slices.DeleteFunc(slices.Clone(attrs), func(a manifest.Attr) bool { return slices.Contains(originAttrs, a.Name) })
}

// isAlike reports whether two sides have the same at a path.
func (m *merger) isAlike(a *manifest.Entry, of side, b *manifest.Entry, in side) (bool, error) {
	switch {
	case a == nil || b == nil:
		return a == b, nil
	case a == b:
		return true, nil
	case a.Mode != b.Mode || a.Left != b.Left:
		return false, nil
	case a.IsDir():
		return slices.Equal(telling(a.Attrs), telling(b.Attrs)), nil
	}
	x, y := *firstName(a, of), *firstName(b, in)
	x.Attrs, y.Attrs = telling(x.Attrs), telling(y.Attrs)
	return isEqual(&x, &y, m.packs)
}

// entries lists the result in the order of a walk. It drops entries without a directory: their
// directory went, and only they were to stay as ours.
func (m *merger) entries(result side) []manifest.Entry {
	paths := slices.SortedFunc(maps.Keys(result), byWalk)
	var list []manifest.Entry
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
func (m *merger) detach(e, from *manifest.Entry, kept side) {
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
