package snapshot

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/merge"
	"github.com/bothy-dev/bothy/spec"
)

// shownBelow reads files of the host that showed through layers when a checkpoint kept these,
// because the sandbox had not changed them.
type shownBelow struct {
	sb    *spec.Sandbox
	base  []manifest.Tree
	since time.Time // a file that changed later may be another one by now

	paths map[string]map[string]*manifest.Entry
}

// readText reads one of them. It returns nil if the file may differ from the one that showed then. The
// sandbox has chosen the path, so text follows no link and enters no other file system.
func (b *shownBelow) readText(tree, at string) (*merge.Text, error) {
	rel, below := strings.CutPrefix(at, "up/")
	n, err := strconv.Atoi(strings.TrimPrefix(tree, reviewTree))
	if !below || err != nil || n >= len(b.sb.Workspaces) || !b.isShown(tree, at) {
		return nil, nil
	}
	f, err := openBelow(b.sb.Workspaces[n].Source, rel)
	if err != nil {
		return nil, unlessGone(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > merge.MaxText || time.Unix(st.Ctim.Unix()).After(b.since) {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(f, merge.MaxText+1))
	if err != nil {
		return nil, err
	}
	var after unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &after); err != nil || after.Ctim != st.Ctim {
		return nil, err
	}
	return merge.NewText(data, st.Mode), nil
}

// isShown reports whether the host's file shows at a path, because no directory of the layer hides
// it.
func (b *shownBelow) isShown(tree, at string) bool {
	if b.paths == nil {
		b.paths = map[string]map[string]*manifest.Entry{}
		for i := range b.base {
			b.paths[b.base[i].Name] = b.base[i].ByPath()
		}
	}
	for d := path.Dir(at); d != "."; d = path.Dir(d) {
		if e := b.paths[tree][d]; e != nil && !e.ShowsBelow() {
			return false
		}
	}
	return true
}

// openTries bounds how often an open is tried again. Without it a program inside that renames
// files in a loop could keep the host busy.
const openTries = 1000

func openBelow(dir, rel string) (*os.File, error) {
	top, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(top)
	how := &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	for try := 1; ; try++ {
		fd, err := unix.Openat2(top, rel, how)
		if (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) && try < openTries { // something was renamed meanwhile
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: rel, Err: err}
		}
		return os.NewFile(uintptr(fd), rel), nil
	}
}

// unlessGone returns nil if the file is gone, is another kind of file, or is not readable for the
// caller.
func unlessGone(err error) error {
	for _, e := range []error{fs.ErrNotExist, fs.ErrPermission, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.ENXIO, unix.ENAMETOOLONG} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
