package fusefs

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// Operations of the kernel's FUSE protocol, only those that a test needs: linux/fuse.h.
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opSetattr     = 4
	opMkdir       = 9
	opUnlink      = 10
	opRmdir       = 11
	opOpen        = 14
	opRead        = 15
	opWrite       = 16
	opStatfs      = 17
	opRelease     = 18
	opFsync       = 20
	opFlush       = 25
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opReleasedir  = 29
	opFsyncdir    = 30
	opCreate      = 35
	opInterrupt   = 36
	opBatchForget = 42
)

// header is fuse_in_header.
type header struct {
	Len, Op        uint32
	Unique, Node   uint64
	UID, GID, PID  uint32
	ExtLen, Unused uint16
}

const headerSize = 40

// attr is fuse_attr.
type attr struct {
	Ino, Size, Blocks           uint64
	Atime, Mtime, Ctime         uint64
	AtimeNs, MtimeNs, CtimeNs   uint32
	Mode, Links, UID, GID, Rdev uint32
	BlockSize, Flags            uint32
}

// node is a file or directory.
type node struct {
	id       uint64
	mode     uint32
	data     []byte
	children map[string]*node // of a directory
}

func (f *FS) add(mode uint32) *node {
	f.last++
	n := &node{id: f.last, mode: mode}
	if mode&unix.S_IFMT == unix.S_IFDIR {
		n.children = map[string]*node{}
	}
	f.nodes[n.id] = n
	return n
}

// answer answers a request. The kernel does not cache names and attributes: it asks each time.
func (f *FS) answer(request []byte) {
	var h header
	if _, err := binary.Decode(request, binary.NativeEndian, &h); err != nil {
		return
	}
	body := request[headerSize:]
	switch h.Op {
	case opForget, opBatchForget, opInterrupt:
		return
	case opInit:
		f.reply(h, 0, initOut{Major: 7, Minor: 31, MaxReadahead: 65536, MaxBackground: 16, CongestionThreshold: 12, MaxWrite: 1 << 17, TimeGran: 1})
		return
	case opStatfs:
		f.reply(h, 0, statfsOut{Blocks: 1 << 20, Free: 1 << 19, Avail: 1 << 19, Files: 1000, FilesFree: 900, BlockSize: 4096, NameLen: 255, FragmentSize: 4096})
		return
	case opRelease, opReleasedir, opFlush, opFsync, opFsyncdir:
		f.reply(h, 0)
		return
	}
	n := f.nodes[h.Node]
	if n == nil {
		f.reply(h, unix.ENOENT)
		return
	}
	f.ask(h, n, body)
}

// ask answers a request about a node.
func (f *FS) ask(h header, n *node, body []byte) {
	name, _, _ := bytes.Cut(body, []byte{0})
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(body[at:]) }
	long := func(at int) uint64 { return binary.NativeEndian.Uint64(body[at:]) }
	switch h.Op {
	case opLookup:
		child := n.children[string(name)]
		if child == nil {
			f.reply(h, unix.ENOENT)
			return
		}
		f.reply(h, 0, f.entry(child))
	case opGetattr:
		f.reply(h, 0, attrOut{Attr: f.attr(n)})
	case opSetattr: // fuse_setattr_in: bit 0 has a mode, bit 3 a size
		if word(0)&(1<<3) != 0 {
			n.resize(int(long(16)))
		}
		if word(0)&1 != 0 {
			n.mode = n.mode&unix.S_IFMT | word(68)&0o7777
		}
		f.reply(h, 0, attrOut{Attr: f.attr(n)})
	case opMkdir, opCreate:
		size, kind, at := 8, uint32(unix.S_IFDIR), 0
		if h.Op == opCreate {
			size, kind, at = 16, unix.S_IFREG, 4
		}
		mode := word(at)
		name, _, _ = bytes.Cut(body[size:], []byte{0})
		child := f.add(kind | mode&0o7777)
		n.children[string(name)] = child
		if h.Op == opMkdir {
			f.reply(h, 0, f.entry(child))
			return
		}
		f.reply(h, 0, f.entry(child), openOut{Handle: child.id})
	case opUnlink, opRmdir:
		delete(n.children, string(name))
		f.reply(h, 0)
	case opOpen, opOpendir:
		f.reply(h, 0, openOut{Handle: n.id})
	case opRead:
		from := min(int(long(8)), len(n.data))
		f.reply(h, 0, n.data[from:min(from+int(word(16)), len(n.data))])
	case opWrite:
		from, size := int(long(8)), int(word(16))
		n.resize(max(from+size, len(n.data)))
		copy(n.data[from:], body[40:40+size])
		f.reply(h, 0, writeOut{Size: uint32(size)})
	case opReaddir:
		f.reply(h, 0, n.list(int(long(8)), int(word(16))))
	default:
		f.reply(h, unix.ENOSYS)
	}
}

func (n *node) resize(size int) {
	if size <= len(n.data) {
		n.data = n.data[:size]
		return
	}
	n.data = append(n.data, make([]byte, size-len(n.data))...)
}

// list returns the entries of a directory from a number on, as fuse_dirent.
func (n *node) list(from, size int) []byte {
	var out bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(n.children)) {
		child := n.children[name]
		padded := (24 + len(name) + 7) &^ 7
		if i < from {
			continue
		}
		if out.Len()+padded > size {
			break
		}
		e := dirent{Ino: child.id, Off: uint64(i + 1), NameLen: uint32(len(name)), Type: child.mode >> 12}
		_ = binary.Write(&out, binary.NativeEndian, e)
		out.WriteString(name)
		out.Write(make([]byte, padded-24-len(name)))
	}
	return out.Bytes()
}

func (f *FS) attr(n *node) attr {
	return attr{Ino: n.id, Size: uint64(len(n.data)), Blocks: uint64(len(n.data)+511) / 512, Mode: n.mode, Links: 1, UID: f.uid, GID: f.gid, BlockSize: 4096}
}

func (f *FS) entry(n *node) entryOut { return entryOut{Node: n.id, Attr: f.attr(n)} }

type initOut struct {
	Major, Minor, MaxReadahead, Flags  uint32
	MaxBackground, CongestionThreshold uint16
	MaxWrite, TimeGran                 uint32
	MaxPages, Alignment                uint16
	Flags2                             uint32
	Unused                             [7]uint32
}

type statfsOut struct {
	Blocks, Free, Avail, Files, FilesFree     uint64
	BlockSize, NameLen, FragmentSize, Padding uint32
	Spare                                     [6]uint32
}

type attrOut struct {
	Valid            uint64
	ValidNs, Padding uint32
	Attr             attr
}

type entryOut struct {
	Node, Generation, EntryValid, AttrValid uint64
	EntryValidNs, AttrValidNs               uint32
	Attr                                    attr
}

type openOut struct {
	Handle         uint64
	Flags, Backing uint32
}

type writeOut struct{ Size, Padding uint32 }

type dirent struct {
	Ino, Off      uint64
	NameLen, Type uint32
}

// reply writes an answer: an error, or the data after the header.
func (f *FS) reply(h header, errno unix.Errno, parts ...any) {
	var out bytes.Buffer
	_ = binary.Write(&out, binary.NativeEndian, struct {
		Len    uint32
		Error  int32
		Unique uint64
	}{0, -int32(errno), h.Unique})
	for _, p := range parts {
		_ = binary.Write(&out, binary.NativeEndian, p)
	}
	b := out.Bytes()
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	_, _ = unix.Write(int(f.dev.Fd()), b)
}
