package erofs

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// place is the position of a node's inode.
type place struct {
	known  bool
	at     int64 // of its inode, from the start of the inodes
	number uint32
	links  uint32
	rest   int64 // of its content, in bytes, after the inode
	blocks Data  // the first blocks of the content, or all of it, of a directory or link
	dir    [][]string
}

const (
	inodeSize  = 64
	slot       = 32 // inodes start at multiples of it, and are numbered by them
	direntSize = 12
	rootAt     = 2 * slot
)

// layout numbers nodes and assigns positions to them.
type layout struct {
	w     *Writer
	end   int64 // of the inodes so far
	nodes []*Node
}

// Finish writes the inodes of the tree and completes the image. Nothing can be added
// afterwards.
func (w *Writer) Finish(root *Node, made int64) error {
	l := &layout{w: w, end: rootAt}
	if err := l.placeNode(root); err != nil {
		return err
	}
	inodes, err := w.reserveBlocks(blocks(l.end))
	if err != nil {
		return err
	}
	if err := l.writeInodes(inodes, root); err != nil {
		return fmt.Errorf("write inodes: %w", err)
	}
	if _, err := w.f.WriteAt(w.superblock(root, inodes, len(l.nodes), made), superblockAt); err != nil {
		return err
	}
	return w.f.Truncate(w.next * BlockSize)
}

func (l *layout) placeNode(n *Node) error {
	n.place.links++
	if n.place.known {
		return nil
	}
	p := &n.place
	p.known, p.number = true, uint32(len(l.nodes)+1)
	l.nodes = append(l.nodes, n)
	content := int64(len(n.Target))
	if n.IsDir() {
		p.dir = arrange(n)
		content = dirSize(p.dir)
		p.links++ // its own .
	}
	if !n.IsFile() {
		if err := l.placeContent(p, content); err != nil {
			return err
		}
	}
	l.placeInode(p)
	for _, name := range slices.Sorted(maps.Keys(n.Entries)) {
		if err := l.placeNode(n.Entries[name]); err != nil {
			return err
		}
		if n.Entries[name].IsDir() {
			p.links++ // its ..
		}
	}
	return nil
}

// placeContent gives the content its own blocks, except a tail that fits after the inode.
func (l *layout) placeContent(p *place, size int64) error {
	p.rest = size % BlockSize
	if p.rest > BlockSize-inodeSize {
		p.rest = 0
	}
	p.blocks.Size = size - p.rest
	if p.blocks.Size == 0 {
		return nil
	}
	var err error
	p.blocks.Block, err = l.w.reserveBlocks(blocks(p.blocks.Size))
	return err
}

// placeInode finds a position such that the inode and its tail fit in one block.
func (l *layout) placeInode(p *place) {
	p.at = l.end
	if (p.at+inodeSize)%BlockSize+p.rest > BlockSize || p.at%BlockSize+inodeSize > BlockSize {
		p.at = blocks(p.at) * BlockSize
	}
	l.end = (p.at + inodeSize + p.rest + slot - 1) / slot * slot
}

// arrange sorts the names of a directory into blocks.
func arrange(n *Node) (list [][]string) {
	names := append(slices.Collect(maps.Keys(n.Entries)), ".", "..")
	slices.Sort(names)
	used := BlockSize
	for _, name := range names {
		size := direntSize + len(name)
		if used+size > BlockSize {
			list, used = append(list, nil), 0
		}
		list[len(list)-1] = append(list[len(list)-1], name)
		used += size
	}
	return list
}

// dirSize is the size of all full blocks plus the used part of the last one.
func dirSize(list [][]string) int64 {
	size := int64(len(list)-1) * BlockSize
	for _, name := range list[len(list)-1] {
		size += direntSize + int64(len(name))
	}
	return size
}

func (l *layout) writeInodes(block uint32, root *Node) error {
	out := bufio.NewWriterSize(io.NewOffsetWriter(l.w.f, int64(block)*BlockSize), 1<<20)
	at := int64(0)
	pad := func(to int64) error {
		_, err := io.CopyN(out, zeros{}, to-at)
		at = to
		return err
	}
	parents := map[*Node]*Node{root: root}
	for _, n := range l.nodes {
		content := []byte(n.Target)
		if n.IsDir() {
			for _, kid := range n.Entries {
				if kid.IsDir() {
					parents[kid] = n
				}
			}
			content = n.encodeDirents(parents[n])
			delete(parents, n)
		}
		p := n.place
		if !n.IsFile() && p.blocks.Size > 0 {
			if _, err := l.w.f.WriteAt(content[:p.blocks.Size], p.blocks.offset()); err != nil {
				return err
			}
		}
		if err := pad(p.at); err != nil {
			return err
		}
		text := n.encodeInode()
		if !n.IsFile() {
			text = append(text, content[p.blocks.Size:]...)
		}
		at += int64(len(text))
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	if err := pad(blocks(l.end) * BlockSize); err != nil {
		return err
	}
	return out.Flush()
}

// Bits of an inode's format.
const (
	extended = 1
	inline   = 2 << 1
)

func (n *Node) encodeInode() []byte {
	format, size, block := uint16(extended), n.Data.Size, n.Data.Block
	if !n.IsFile() {
		size, block = n.place.blocks.Size+n.place.rest, n.place.blocks.Block
		if n.place.rest > 0 {
			format |= inline
		}
	}
	b := make([]byte, 0, inodeSize+n.place.rest)
	le := binary.LittleEndian
	b = le.AppendUint16(b, format)
	b = le.AppendUint16(b, 0) // extended attributes
	b = le.AppendUint16(b, n.Mode)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint64(b, uint64(size))
	b = le.AppendUint32(b, block)
	b = le.AppendUint32(b, n.place.number)
	b = le.AppendUint32(b, n.UID)
	b = le.AppendUint32(b, n.GID)
	b = le.AppendUint64(b, uint64(max(n.Mtime, 0)))
	b = le.AppendUint32(b, 0) // nanoseconds
	b = le.AppendUint32(b, n.place.links)
	return append(b, make([]byte, inodeSize-len(b))...)
}

func (n *Node) encodeDirents(parent *Node) []byte {
	var out []byte
	for i, names := range n.place.dir {
		if i > 0 {
			out = append(out, make([]byte, i*BlockSize-len(out))...)
		}
		at := direntSize * len(names)
		for _, name := range names {
			to := n.Entries[name]
			switch name {
			case ".":
				to = n
			case "..":
				to = parent
			}
			out = binary.LittleEndian.AppendUint64(out, uint64(to.place.at/slot))
			out = binary.LittleEndian.AppendUint16(out, uint16(at))
			out = append(out, to.fileType(), 0)
			at += len(name)
		}
		for _, name := range names {
			out = append(out, name...)
		}
	}
	return out
}

func (n *Node) fileType() byte {
	switch n.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 1
	case unix.S_IFDIR:
		return 2
	case unix.S_IFLNK:
		return 7
	}
	return 0
}

const (
	superblockAt   = 1024
	superblockSize = 128
	magic          = 0xe0f5e1e2
)

func (w *Writer) superblock(root *Node, inodes uint32, count int, made int64) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, magic)
	b = le.AppendUint32(b, 0) // checksum: none
	b = le.AppendUint32(b, 0) // compatible features
	b = append(b, blockBits, 0)
	b = le.AppendUint16(b, uint16(root.place.at/slot)) // the first, or at the next block's beginning
	b = le.AppendUint64(b, uint64(count))
	b = le.AppendUint64(b, uint64(max(made, 0)))
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(w.next))
	b = le.AppendUint32(b, inodes)
	return append(b, make([]byte, superblockSize-len(b))...)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
