// Package erofs writes file systems of the format EROFS. They are read-only, with any owners and modes,
// independent of the process that writes them. The package writes the part of the format that gVisor can
// map into memory: without compression, with files in whole blocks, and without extended attributes.
//
// The writer stores file data as it arrives, and the inodes once all files are known:
//
//	block 0         the superblock
//	blocks          data of files, then of large directories and long links
//	to the end      inodes, each followed by the rest of its directory or link
package erofs

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

const (
	blockBits = 12
	// BlockSize is the unit of file data.
	BlockSize = 1 << blockBits
	// MaxName is the longest name and MaxLink the longest target of a symbolic link, both in bytes.
	MaxName = 255
	MaxLink = BlockSize - 1
)

// Node is a file; Mode contains its type. A node that appears in several directories, or under several
// names, is a file with several hard links.
type Node struct {
	Mode     uint16 // as of stat(2): a directory, a regular file or a symbolic link
	UID, GID uint32
	Mtime    int64 // seconds
	Data     Data
	Target   string           // of a symbolic link
	Entries  map[string]*Node // of a directory

	place place
}

// IsDir, IsFile and IsLink report the type.
func (n *Node) IsDir() bool  { return n.Mode&unix.S_IFMT == unix.S_IFDIR }
func (n *Node) IsFile() bool { return n.Mode&unix.S_IFMT == unix.S_IFREG }
func (n *Node) IsLink() bool { return n.Mode&unix.S_IFMT == unix.S_IFLNK }

// Data is the position of a file's content in the image.
type Data struct {
	Block uint32
	Size  int64
}

func (d Data) offset() int64 { return int64(d.Block) * BlockSize }

func blocks(size int64) int64 { return (size + BlockSize - 1) / BlockSize }

// Writer writes an image.
type Writer struct {
	f    *os.File
	next int64 // the next free block
	buf  []byte
}

// NewWriter begins an image in an empty file. The caller keeps ownership of the file.
func NewWriter(f *os.File) *Writer { return &Writer{f: f, next: 1} }

// chunk is the number of bytes handled at a time.
const chunk = 32 * BlockSize

// Add writes the content of a file. It leaves zeros out, so a file of zeros takes no space.
func (w *Writer) Add(r io.Reader) (Data, error) {
	d := Data{Block: uint32(w.next)}
	if w.buf == nil {
		w.buf = make([]byte, chunk)
	}
	for {
		n, err := io.ReadFull(r, w.buf)
		if part := w.buf[:n]; len(bytes.TrimLeft(part, "\x00")) > 0 {
			if _, err := w.f.WriteAt(part, d.offset()+d.Size); err != nil {
				return Data{}, err
			}
		}
		d.Size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return Data{}, err
		}
	}
	if d.Size == 0 {
		return Data{}, nil
	}
	_, err := w.reserveBlocks(blocks(d.Size))
	return d, err
}

func (w *Writer) reserveBlocks(n int64) (uint32, error) {
	at := w.next
	if at+n > math.MaxUint32 {
		return 0, unix.EFBIG
	}
	w.next += n
	return uint32(at), nil
}

// Open reads content that was added.
func (w *Writer) Open(d Data) *io.SectionReader {
	return io.NewSectionReader(w.f, d.offset(), d.Size)
}

// Drop frees content that no node uses. It only saves space.
func (w *Writer) Drop(d Data) {
	if d.Size > 0 {
		_ = unix.Fallocate(int(w.f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, d.offset(), blocks(d.Size)*BlockSize)
	}
}
