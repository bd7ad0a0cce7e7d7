package review

import (
	"bytes"
	"encoding/binary"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// dirent is an entry of a directory.
type dirent struct {
	name   string
	number uint64 // of the inode
	kind   byte   // as DT_REG
}

// eachFile calls a function for the names below a directory that may be regular files, but skips
// some paths. It skips a directory that it cannot list.
func (d *dir) eachFile(without []string, visit func(in *dir, at string, e dirent)) error {
	buf := make([]byte, 32<<10)
	for queue := []string{"."}; len(queue) > 0; queue = queue[1:] {
		in, err := d.sub(queue[0])
		if err != nil {
			continue
		}
		err = in.entries(buf, func(e dirent) {
			switch in.kindOf(e) {
			case unix.DT_DIR:
				if p := path.Join(queue[0], e.name); !slices.Contains(without, p) {
					queue = append(queue, p)
				}
			case unix.DT_REG:
				visit(in, queue[0], e)
			}
		})
		in.close()
		if err != nil && !hidden(err) { // it may have been removed just now
			return err
		}
	}
	return nil
}

// kindOf looks up the kind of a name if the directory does not give it.
func (d *dir) kindOf(e dirent) byte {
	if e.kind != unix.DT_UNKNOWN {
		return e.kind
	}
	st, _, _ := d.stat(e.name)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return unix.DT_DIR
	case unix.S_IFREG:
		return unix.DT_REG
	}
	return unix.DT_UNKNOWN
}

// entries goes through the names in the directory itself.
func (d *dir) entries(buf []byte, visit func(dirent)) error {
	for {
		n, err := unix.Getdents(d.fd(), buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			var e dirent
			if e, rest = cutDirent(rest); e.name != "." && e.name != ".." {
				visit(e)
			}
		}
	}
}

// cutDirent takes one struct linux_dirent64 from the kernel's buffer, see getdents(2).
func cutDirent(b []byte) (e dirent, rest []byte) {
	const head = 8 + 8 + 2 + 1 // inode, where the next is, length, type
	length := binary.NativeEndian.Uint16(b[16:])
	name, _, _ := bytes.Cut(b[head:length], []byte{0})
	return dirent{string(name), binary.NativeEndian.Uint64(b), b[18]}, b[length:]
}
