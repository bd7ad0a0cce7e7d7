package beneath

import (
	"bytes"
	"encoding/binary"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// DirEntry is an entry of a directory.
type DirEntry struct {
	Name  string
	Inode uint64 // its number
	kind  byte   // as DT_REG
}

// EachFile calls a function for the names below a directory that may be regular files, but skips
// some paths. It skips a directory that it cannot list.
func (d *Dir) EachFile(without []string, visit func(in *Dir, at string, e DirEntry)) error {
	buf := make([]byte, 32<<10)
	for queue := []string{"."}; len(queue) > 0; queue = queue[1:] {
		in, err := d.OpenDir(queue[0])
		if err != nil {
			continue
		}
		err = in.eachEntry(buf, func(e DirEntry) {
			switch in.kindOf(e) {
			case unix.DT_DIR:
				if p := path.Join(queue[0], e.Name); !slices.Contains(without, p) {
					queue = append(queue, p)
				}
			case unix.DT_REG:
				visit(in, queue[0], e)
			}
		})
		in.Close()
		if err != nil && !IsMissing(err) { // it may have been removed just now
			return err
		}
	}
	return nil
}

// kindOf looks up the kind of a name if the directory does not give it.
func (d *Dir) kindOf(e DirEntry) byte {
	if e.kind != unix.DT_UNKNOWN {
		return e.kind
	}
	st, _, _ := d.Stat(e.Name)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return unix.DT_DIR
	case unix.S_IFREG:
		return unix.DT_REG
	}
	return unix.DT_UNKNOWN
}

// eachEntry goes through the names in the directory itself.
func (d *Dir) eachEntry(buf []byte, visit func(DirEntry)) error {
	for {
		n, err := unix.Getdents(d.FD(), buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			var e DirEntry
			if e, rest = cutDirent(rest); e.Name != "." && e.Name != ".." {
				visit(e)
			}
		}
	}
}

// cutDirent takes one struct linux_dirent64 from the kernel's buffer, see getdents(2).
func cutDirent(b []byte) (e DirEntry, rest []byte) {
	const head = 8 + 8 + 2 + 1 // inode, where the next is, length, type
	length := binary.NativeEndian.Uint16(b[16:])
	name, _, _ := bytes.Cut(b[head:length], []byte{0})
	return DirEntry{string(name), binary.NativeEndian.Uint64(b), b[18]}, b[length:]
}
