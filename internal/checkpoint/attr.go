package checkpoint

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
)

// Access control lists. Of a file that has one, what its mode says of the group is the
// list's mask: without the list, it would be the group's right.
const (
	accessList  = "system.posix_acl_access"
	defaultList = "system.posix_acl_default"
)

func isList(name string) bool { return name == accessList || name == defaultList }

// maxAttrs is how many bytes of attributes a file may have, and how long the kernel lets
// one be.
const maxAttrs = 64 << 10

// attributes are access control lists, and those of the namespace "user", of which an
// overlay's layer has some of its own. Where there are none, or none can be read, there
// are none to keep.
func attributes(f *os.File) (list []Attr) {
	file := self(int(f.Fd()))
	n, err := unix.Listxattr(file, nil)
	if err != nil || n == 0 {
		return nil
	}
	b := make([]byte, n)
	if n, err = unix.Listxattr(file, b); err != nil {
		return nil
	}
	sum, v := 0, make([]byte, maxAttrs)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(b[:n]), "\x00"), "\x00") {
		if !isList(name) && !strings.HasPrefix(name, "user.") {
			continue
		}
		n, err := unix.Getxattr(file, name, v)
		if err != nil {
			continue
		}
		if !isList(name) {
			sum += len(name) + n
		}
		if isList(name) || sum <= maxAttrs {
			list = append(list, Attr{name, string(v[:n])})
		}
	}
	return list
}

// dressAttributes has a file have the attributes of an entry, and no others. It tells
// whether an access control list could not be set.
func (e *Entry) dressAttributes(f *os.File) (narrowed bool, err error) {
	file := self(int(f.Fd()))
	has := attributes(f)
	for _, a := range has {
		if slices.ContainsFunc(e.Attrs, func(b Attr) bool { return a.Name == b.Name }) {
			continue
		}
		if err := unix.Removexattr(file, a.Name); err != nil {
			return false, fmt.Errorf("remove attribute %q: %w", a.Name, err)
		}
	}
	for _, a := range e.Attrs {
		if slices.Contains(has, a) {
			continue
		}
		err := unix.Setxattr(file, a.Name, []byte(a.Value), 0)
		switch {
		case err == nil:
		case isList(a.Name) && !store.IsFull(err):
			narrowed = true
		default:
			return false, fmt.Errorf("set attribute %q: %w", a.Name, err)
		}
	}
	return narrowed, nil
}

// permissions are those that a file gets. One that cannot have its access control list
// again is noted, and its group gets none.
func (p *putter) permissions(e *Entry, narrowed bool) uint32 {
	if narrowed {
		p.skipped = append(p.skipped, path.Join(p.src.Dir, e.Path))
		return e.Mode & 0o7707
	}
	return e.Mode & 0o7777
}
