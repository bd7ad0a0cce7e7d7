package sqlite

import (
	"encoding/binary"
	"fmt"
)

// scan walks through the tree of one table.
type scan struct {
	db    *DB
	seen  map[uint32]struct{} // its pages so far
	any   bool
	last  int64 // ID of the last row, if any
	yield func(*Row) error
}

// maxDepth is SQLite's own bound. A tree of a database that fits our bounds has 5.
const maxDepth = 20

// Kinds of a tree's pages.
const (
	interior = 5
	leaf     = 13
)

// takePage reads a page, and fails if the walk has already taken it.
func (s *scan) takePage(n uint32) ([]byte, error) {
	if _, ok := s.seen[n]; ok {
		return nil, fmt.Errorf("page %d is in the table twice", n)
	}
	s.seen[n] = struct{}{}
	return s.db.readPage(n)
}

func (s *scan) walkTree(n uint32, depth int) error {
	if depth == maxDepth {
		return fmt.Errorf("page %d: the table is more than %d pages deep", n, maxDepth)
	}
	p, err := s.takePage(n)
	if err != nil {
		return err
	}
	head := 0
	if n == 1 {
		head = headerSize
	}
	first := head + 8
	switch p[head] {
	case interior:
		first = head + 12
	case leaf:
	default:
		return fmt.Errorf("page %d does not belong to a table (%d)", n, p[head])
	}
	cells := int(binary.BigEndian.Uint16(p[head+3:]))
	behind := first + 2*cells
	if behind > len(p) {
		return fmt.Errorf("page %d has no room for %d cells", n, cells)
	}
	for i := range cells {
		at := int(binary.BigEndian.Uint16(p[first+2*i:]))
		if at < behind || at > len(p)-4 {
			return fmt.Errorf("page %d has cell %d where it cannot be", n, i)
		}
		if p[head] == interior {
			err = s.walkTree(binary.BigEndian.Uint32(p[at:]), depth+1)
		} else {
			err = s.readCell(n, p[at:])
		}
		if err != nil {
			return err
		}
	}
	if p[head] == interior {
		return s.walkTree(binary.BigEndian.Uint32(p[head+8:]), depth+1)
	}
	return nil
}

func (s *scan) readCell(n uint32, b []byte) error {
	size, b, ok := varint(b)
	id, b, also := varint(b)
	if !ok || !also || size > maxRow {
		return fmt.Errorf("page %d has a row of %d bytes", n, size)
	}
	r := &Row{ID: int64(id), Size: int64(size), scan: s}
	if s.any && r.ID <= s.last {
		return fmt.Errorf("page %d has row %d after row %d", n, r.ID, s.last)
	}
	s.any, s.last = true, r.ID
	here := s.localSize(int(size))
	end := here
	if here < int(size) {
		end += 4
	}
	if end > len(b) {
		return fmt.Errorf("page %d has no room for row %d", n, r.ID)
	}
	r.have = b[:here:here]
	if here < int(size) {
		r.next = binary.BigEndian.Uint32(b[here:])
	}
	if err := r.readHead(); err != nil {
		return fmt.Errorf("row %d: %w", r.ID, err)
	}
	return s.yield(r)
}

// localSize returns how many bytes of a row are in the leaf; the rest is in pages of its own.
func (s *scan) localSize(size int) int {
	u := s.db.usable
	most := u - 35
	if size <= most {
		return size
	}
	least := (u-12)*32/255 - 23
	if here := least + (size-least)%(u-4); here <= most {
		return here
	}
	return least
}

// varint reads a number of one to nine bytes.
func varint(b []byte) (v uint64, rest []byte, ok bool) {
	for i := range min(len(b), 9) {
		if i == 8 {
			return v<<8 | uint64(b[i]), b[9:], true
		}
		v = v<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return v, b[i+1:], true
		}
	}
	return 0, nil, false
}
