package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
)

// Kinds of change.
const (
	Added    = "added"
	Modified = "modified"
	Deleted  = "deleted"
)

// Change is a path that two states of a directory differ in.
type Change struct {
	Tree string `json:"tree"`
	Path string `json:"path"`
	Kind string `json:"kind"`
}

// State is what one sandbox's directories held.
type State struct {
	Trees []Tree
	Packs *Packs
}

// Compare tells what is different in b, by tree and path. Times are not compared.
func Compare(a, b State) (list []Change, err error) {
	for _, t := range slices.Concat(b.Trees, a.Trees) {
		was, now := find(a.Trees, t.Name), find(b.Trees, t.Name)
		if slices.ContainsFunc(list, func(c Change) bool { return c.Tree == t.Name }) {
			continue // it is one of both
		}
		c, err := compare(was, now, a.Packs, b.Packs)
		if err != nil {
			return nil, err
		}
		list = append(list, c...)
	}
	return list, nil
}

// find gives the tree of a name; one that is not there holds nothing.
func find(trees []Tree, name string) Tree {
	for _, t := range trees {
		if t.Name == name {
			return t
		}
	}
	return Tree{Name: name}
}

// byPath finds entries by their paths.
func (t *Tree) byPath() map[string]*Entry {
	all := make(map[string]*Entry, len(t.Entries))
	for i := range t.Entries {
		all[t.Entries[i].Path] = &t.Entries[i]
	}
	return all
}

func compare(was, now Tree, old, fresh *Packs) (list []Change, err error) {
	before := was.byPath()
	names, theirs := now.byPath(), was.byPath()
	first := func(e *Entry, all map[string]*Entry) *Entry {
		if e.Same != "" && all[e.Same] != nil {
			return all[e.Same]
		}
		return e
	}
	for i := range now.Entries {
		e := &now.Entries[i]
		o := before[e.Path]
		delete(before, e.Path)
		if e.Path == "" {
			continue
		}
		if o == nil {
			list = append(list, Change{now.Name, e.Path, Added})
			continue
		}
		same, err := equal(first(o, theirs), first(e, names), old, fresh)
		if err != nil {
			return nil, err
		}
		if !same {
			list = append(list, Change{now.Name, e.Path, Modified})
		}
	}
	for p := range before {
		if p != "" {
			list = append(list, Change{now.Name, p, Deleted})
		}
	}
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

func equal(a, b *Entry, old, fresh *Packs) (bool, error) {
	if a.Mode != b.Mode || a.Size != b.Size || a.Target != b.Target || a.Left != b.Left || !slices.Equal(a.Attrs, b.Attrs) {
		return false, nil
	}
	if !a.hasData() {
		return true, nil
	}
	if old.shelf == fresh.shelf && a.Content.Pack == b.Content.Pack && a.Content.Offset == b.Content.Offset {
		return true, nil
	}
	return sameContent(a, b, old, fresh)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// sameContent compares files of one size. Holes that both have are not looked at: they
// may be as large as whoever is inside likes.
func sameContent(a, b *Entry, old, fresh *Packs) (bool, error) {
	var ends []int64
	for _, p := range slices.Concat(a.Content.Pieces, b.Content.Pieces) {
		ends = append(ends, p.At, p.At+p.Length)
	}
	slices.Sort(ends)
	x, y := cursor{packs: old, e: a, at: a.Content.Offset}, cursor{packs: fresh, e: b, at: b.Content.Offset}
	for i := 1; i < len(ends); i++ {
		from, to := ends[i-1], ends[i]
		one, err := x.part(from, to)
		if err != nil {
			return false, err
		}
		other, err := y.part(from, to)
		if err != nil {
			return false, err
		}
		if one == nil && other == nil || from == to {
			continue
		}
		if same, err := sameBytes(orZeros(one, to-from), orZeros(other, to-from)); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// cursor goes through the data of a file.
type cursor struct {
	packs *Packs
	e     *Entry
	i     int   // the piece that we are in, or come to next
	at    int64 // where it lies in the pack
}

// part reads a part, of which the next begins where it ends, that is data from end to
// end; nil is one of zeros.
func (c *cursor) part(from, to int64) (io.Reader, error) {
	pieces := c.e.Content.Pieces
	for c.i < len(pieces) && pieces[c.i].At+pieces[c.i].Length <= from {
		c.at += pieces[c.i].Length
		c.i++
	}
	if c.i == len(pieces) || to <= pieces[c.i].At {
		return nil, nil
	}
	f, err := c.packs.at(c.e.Content.Pack)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(f, c.at+from-pieces[c.i].At, to-from), nil
}

func orZeros(r io.Reader, n int64) io.Reader {
	if r == nil {
		return io.LimitReader(zeros{}, n)
	}
	return r
}

func sameBytes(a, b io.Reader) (bool, error) {
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(a, x)
		m, err2 := io.ReadFull(b, y)
		if n != m || !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		for _, e := range []error{err, err2} {
			if errors.Is(e, io.EOF) || errors.Is(e, io.ErrUnexpectedEOF) {
				return true, nil
			}
			if e != nil {
				return false, e
			}
		}
	}
}
