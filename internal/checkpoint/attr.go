package checkpoint

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/store"
)

// Access control lists. If a file has one, the group bits of its mode are the list's mask:
// without the list, they would be the group's rights.
const (
	accessList  = "system.posix_acl_access"
	defaultList = "system.posix_acl_default"
)

func isList(name string) bool { return name == accessList || name == defaultList }

// maxAttrs bounds the bytes of a file's attributes, and is the kernel's limit for one attribute.
const maxAttrs = 64 << 10

// attributes returns the access control lists, and the attributes of the namespace "user", some
// of which belong to an overlay's layer. It returns none if there are none, or if they cannot be
// read.
func attributes(f *os.File) (list []manifest.Attr) {
	file := fdPath(int(f.Fd()))
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
			list = append(list, manifest.Attr{Name: name, Value: string(v[:n])})
		}
	}
	return list
}

// dressAttributes gives a file the attributes of an entry, and no others. It reports whether an
// access control list could not be set.
func dressAttributes(e *manifest.Entry, f *os.File) (narrowed bool, err error) {
	file := fdPath(int(f.Fd()))
	has := attributes(f)
	for _, a := range has {
		if slices.ContainsFunc(e.Attrs, func(b manifest.Attr) bool { return a.Name == b.Name }) {
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

// permissions returns the permissions that a file gets. A file whose access control list cannot
// be restored is reported as skipped, and its group gets none.
func (p *putter) permissions(e *manifest.Entry, narrowed bool) uint32 {
	if narrowed {
		p.skipped = append(p.skipped, path.Join(p.src.Dir, e.Path))
		return e.Mode & 0o7707
	}
	return e.Mode & 0o7777
}
