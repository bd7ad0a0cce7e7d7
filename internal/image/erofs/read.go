package erofs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Reader finds files in an image that [Writer] wrote: their names and metadata. The contents are mostly
// read by the kernel and gVisor.
type Reader struct {
	r      io.ReaderAt
	inodes int64
	root   uint64
	dirs   map[uint64]map[string]uint64
}

var errFormat = errors.New("it is not an image that Bothy wrote")

// Open begins to read an image.
func Open(r io.ReaderAt) (*Reader, error) {
	b := make([]byte, superblockSize)
	if _, err := r.ReadAt(b, superblockAt); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if le.Uint32(b) != magic || b[12] != blockBits {
		return nil, errFormat
	}
	return &Reader{r, int64(le.Uint32(b[40:])) * BlockSize, uint64(le.Uint16(b[14:])), map[uint64]map[string]uint64{}}, nil
}

// Lookup finds a file by its path from the root. It follows no links, neither the last one
// nor any on the way: a path through a link is fs.ErrNotExist. Entries are not filled in.
func (r *Reader) Lookup(name string) (*Node, error) {
	at := r.root
	n, _, err := r.readInode(at)
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if part == "" || err != nil {
			continue
		}
		kids, kerr := r.readNames(at, n)
		kid, ok := kids[part]
		if kerr != nil || !ok {
			return nil, errors.Join(kerr, fmt.Errorf("%s: %w", name, fs.ErrNotExist))
		}
		at = kid
		n, _, err = r.readInode(at)
	}
	return n, err
}

// Content reads the content of a file that was looked up.
func (r *Reader) Content(n *Node) *io.SectionReader {
	return io.NewSectionReader(r.r, n.Data.offset(), n.Data.Size)
}

// maxFollow is the maximum number of links on the way to a file, as in the kernel.
const maxFollow = 40

// Resolve returns the path of a file with all links replaced, including the last one, and whether the
// file exists. Missing parts stay as they are.
func (r *Reader) Resolve(name string) (real string, there bool, err error) {
	parts, follows := strings.Split(name, "/"), 0
	real, there = "/", true
	for len(parts) > 0 {
		part := parts[0]
		parts = parts[1:]
		if part == "" || part == "." {
			continue
		}
		next := path.Join(real, part)
		n, err := r.Lookup(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			there = false
		case err != nil:
			return "", false, err
		case n.IsLink():
			if follows++; follows > maxFollow {
				return "", false, fmt.Errorf("%s is behind more than %d links", name, maxFollow)
			}
			if path.IsAbs(n.Target) {
				real = "/"
			}
			parts = append(strings.Split(n.Target, "/"), parts...)
			continue
		}
		real = next
	}
	return real, there, nil
}

// readInode reads the metadata of a file. For directories and links, it also reads all the
// content.
func (r *Reader) readInode(nid uint64) (n *Node, content []byte, err error) {
	b := make([]byte, inodeSize)
	at := r.inodes + int64(nid)*slot
	if _, err := r.r.ReadAt(b, at); err != nil {
		return nil, nil, err
	}
	le := binary.LittleEndian
	format, size, block := le.Uint16(b), int64(le.Uint64(b[8:])), le.Uint32(b[16:])
	n = &Node{Mode: le.Uint16(b[4:]), UID: le.Uint32(b[24:]), GID: le.Uint32(b[28:]), Mtime: int64(le.Uint64(b[32:]))}
	if n.IsFile() {
		n.Data = Data{block, size}
		return n, nil, nil
	}
	const most = 1 << 30
	if format&extended == 0 || size < 0 || size > most {
		return nil, nil, errFormat
	}
	content = make([]byte, size)
	rest := int64(0)
	if format&inline != 0 {
		rest = size % BlockSize
	}
	if _, err := r.r.ReadAt(content[:size-rest], int64(block)*BlockSize); err != nil && size > rest {
		return nil, nil, err
	}
	if _, err := r.r.ReadAt(content[size-rest:], at+inodeSize); err != nil && rest > 0 {
		return nil, nil, err
	}
	if n.IsLink() {
		n.Target = string(content)
	}
	return n, content, nil
}

func (r *Reader) readNames(nid uint64, n *Node) (map[string]uint64, error) {
	if kids, ok := r.dirs[nid]; ok || !n.IsDir() {
		return kids, nil
	}
	_, content, err := r.readInode(nid)
	if err != nil {
		return nil, err
	}
	kids := map[string]uint64{}
	for len(content) > 0 {
		block := content[:min(BlockSize, len(content))]
		content = content[len(block):]
		if err := readDirents(block, kids); err != nil {
			return nil, err
		}
	}
	r.dirs[nid] = kids
	return kids, nil
}

func readDirents(block []byte, kids map[string]uint64) error {
	le := binary.LittleEndian
	if len(block) < direntSize {
		return errFormat
	}
	count := int(le.Uint16(block[8:])) / direntSize
	for i := range count {
		b := block[i*direntSize:]
		from, to := int(le.Uint16(b[8:])), len(block)
		if i+1 < count {
			to = int(le.Uint16(b[direntSize+8:]))
		}
		if from > to || to > len(block) {
			return errFormat
		}
		kids[string(bytes.TrimRight(block[from:to], "\x00"))] = le.Uint64(b)
	}
	return nil
}
