package sftp

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// usePath carries out a request on paths.
func usePath(kind byte, p *packet) (*answer, error) {
	switch kind {
	case pktStat:
		return statPath(p, 0)
	case pktLstat:
		return statPath(p, unix.AT_SYMLINK_NOFOLLOW)
	case pktSetstat:
		return nil, setPath(p, false)
	case pktRemove:
		return nil, onPath(p, unix.Unlink)
	case pktRmdir:
		return nil, onPath(p, unix.Rmdir)
	case pktMkdir:
		return nil, makeDir(p)
	case pktRealpath:
		return resolve(p.takePath(), p)
	case pktReadlink:
		return readLink(p)
	case pktRename:
		return nil, onTwoPaths(p, renameNew)
	case pktSymlink: // OpenSSH has the two in this order
		return nil, onTwoPaths(p, unix.Symlink)
	}
	return nil, errUnsupported
}

// takePath returns a path. An empty one is the working directory.
func (p *packet) takePath() string {
	s := p.takeText()
	if strings.ContainsRune(s, 0) {
		p.err = errShort
	}
	if s == "" {
		return "."
	}
	return s
}

func onPath(p *packet, do func(string) error) error {
	path := p.takePath()
	if p.err != nil {
		return errBadMessage
	}
	return do(path)
}

func onTwoPaths(p *packet, do func(a, b string) error) error {
	a, b := p.takePath(), p.takePath()
	if p.err != nil {
		return errBadMessage
	}
	return do(a, b)
}

func statPath(p *packet, flags int) (*answer, error) {
	path := p.takePath()
	if p.err != nil {
		return nil, errBadMessage
	}
	var st unix.Stat_t
	if err := unix.Fstatat(unix.AT_FDCWD, path, &st, flags); err != nil {
		return nil, err
	}
	return attributesOf(&st), nil
}

func setPath(p *packet, noLink bool) error {
	path, attrs := p.takePath(), p.attributes()
	if p.err != nil {
		return errBadMessage
	}
	return target{path: path, noLink: noLink}.setAll(attrs)
}

func makeDir(p *packet) error {
	path, attrs := p.takePath(), p.attributes()
	if p.err != nil {
		return errBadMessage
	}
	return unix.Mkdir(path, attrs.modeOr(0o777))
}

func readLink(p *packet) (*answer, error) {
	path := p.takePath()
	if p.err != nil {
		return nil, errBadMessage
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink(path, buf)
	if err != nil {
		return nil, err
	}
	return oneName(string(buf[:n])), nil
}

// oneName answers with a name that has no attributes.
func oneName(name string) *answer {
	a := &answer{kind: pktName}
	a.uint32(1)
	a.addText(name)
	a.addText(name)
	a.uint32(0)
	return a
}

// resolve answers with the absolute path of a name without links. The last name need not exist.
func resolve(path string, p *packet) (*answer, error) {
	if p.err != nil {
		return nil, errBadMessage
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	found, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		dir, derr := filepath.EvalSymlinks(filepath.Dir(abs))
		if derr == nil {
			found, err = filepath.Join(dir, filepath.Base(abs)), nil
		}
	}
	if err != nil {
		return nil, err
	}
	return oneName(found), nil
}

// renameNew renames a file to a name that does not exist.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	var st unix.Stat_t // a file system without that flag
	if err := unix.Lstat(to, &st); err == nil {
		return unix.EEXIST
	}
	return unix.Rename(from, to)
}
