package merge

import (
	"io"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/packfile"
	"github.com/bothy-dev/bothy/internal/store"
)

// Kinds of change.
const (
	Added    = "added"
	Modified = "modified"
	Deleted  = "deleted"
)

// Change is a path at which two states of a directory differ.
type Change struct {
	Tree string `json:"tree"`
	Path string `json:"path"`
	Kind string `json:"kind"`
}

// Compare returns the differences in b, by tree and path. It ignores times. Both states are of
// one shelf.
func Compare(a, b []manifest.Tree, packs *packfile.Packs) (list []Change, err error) {
	pairs := make([][2]manifest.Tree, 0, len(b))
	for _, t := range b {
		pairs = append(pairs, [2]manifest.Tree{manifest.Find(a, t.Name), t})
	}
	for _, t := range a {
		if !slices.ContainsFunc(b, func(o manifest.Tree) bool { return o.Name == t.Name }) {
			pairs = append(pairs, [2]manifest.Tree{t, {Name: t.Name}})
		}
	}
	for _, p := range pairs {
		some, err := compare(p[0], p[1], packs)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

func compare(was, now manifest.Tree, packs *packfile.Packs) (list []Change, err error) {
	before, after := was.ByPath(), now.ByPath()
	for path, e := range after {
		o := before[path]
		same := path == "" // the directory itself
		if !same && o != nil {
			if same, err = isEqual(firstName(o, before), firstName(e, after), packs); err != nil {
				return nil, err
			}
		}
		switch {
		case same:
		case o == nil:
			list = append(list, Change{now.Name, path, Added})
		default:
			list = append(list, Change{now.Name, path, Modified})
		}
	}
	for path := range before {
		if after[path] == nil && path != "" {
			list = append(list, Change{now.Name, path, Deleted})
		}
	}
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// firstName returns the entry of a file's first name, under which its content is kept.
func firstName(e *manifest.Entry, all map[string]*manifest.Entry) *manifest.Entry {
	if e.Same != "" && all[e.Same] != nil {
		return all[e.Same]
	}
	return e
}

func isEqual(a, b *manifest.Entry, packs *packfile.Packs) (bool, error) {
	if a.Mode != b.Mode || a.Size != b.Size || a.Target != b.Target || a.Left != b.Left || !slices.Equal(a.Attrs, b.Attrs) {
		return false, nil
	}
	if !a.HasData() || a.Content.Pack == b.Content.Pack && a.Content.Offset == b.Content.Offset {
		return true, nil
	}
	return sameContent(a, b, packs)
}

// sameContent compares files of one size. It skips holes that both have: the sandbox can make
// them as large as it likes.
func sameContent(a, b *manifest.Entry, packs *packfile.Packs) (bool, error) {
	var ends []int64
	for _, p := range slices.Concat(a.Content.Pieces, b.Content.Pieces) {
		ends = append(ends, p.At, p.At+p.Length)
	}
	slices.Sort(ends)
	x, y := cursor{packs: packs, e: a, at: a.Content.Offset}, cursor{packs: packs, e: b, at: b.Content.Offset}
	for i := 1; i < len(ends); i++ {
		from, to := ends[i-1], ends[i]
		one, err := x.readPart(from, to)
		if err != nil {
			return false, err
		}
		other, err := y.readPart(from, to)
		if err != nil {
			return false, err
		}
		if one == nil && other == nil || from == to {
			continue
		}
		if same, err := store.Same(orZeros(one, to-from), orZeros(other, to-from)); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// cursor goes through the data of a file.
type cursor struct {
	packs *packfile.Packs
	e     *manifest.Entry
	i     int   // the piece that we are in, or come to next
	at    int64 // its offset in the pack
}

// readPart reads a part that is either all data or all zeros; nil means zeros. The next part begins
// where it ends.
func (c *cursor) readPart(from, to int64) (io.Reader, error) {
	pieces := c.e.Content.Pieces
	for c.i < len(pieces) && pieces[c.i].At+pieces[c.i].Length <= from {
		c.at += pieces[c.i].Length
		c.i++
	}
	if c.i == len(pieces) || to <= pieces[c.i].At {
		return nil, nil
	}
	f, err := c.packs.Open(c.e.Content.Pack)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(f, c.at+from-pieces[c.i].At, to-from), nil
}

func orZeros(r io.Reader, n int64) io.Reader {
	if r == nil {
		return io.LimitReader(packfile.Zeros{}, n)
	}
	return r
}
