package hostroot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This file handles directories of the host's programs that the sandbox's user may not read. In some of
// them packages keep rules for other accounts. Even root inside could not read them, and package
// managers would fail halfway.

// closedName is the file with the list of such directories in a snapshot. A search at each start would
// take too long.
const closedName = "closed"

const (
	closedDepth = 4 // directories below the root: /usr/share/polkit-1/rules.d
	closedTime  = 2 * time.Second
	maxClosed   = 256
)

// notSearched have very many directories, all of which every user may read.
var notSearched = []string{"/nix/store", "/nix/var/nix/profiles", "/snap"}

// findClosed returns the directories that not every user may read, or not the caller.
func (s source) findClosed() []string {
	var list []string
	until := time.Now().Add(closedTime)
	for _, p := range programs {
		if s.kindOf(p.path) != isDir || slices.Contains(notSearched, p.path) {
			continue
		}
		_ = filepath.WalkDir(s.path(p.path), func(path string, d fs.DirEntry, err error) error {
			inside := strings.TrimPrefix(path, s.root)
			switch {
			case time.Now().After(until) || len(list) >= maxClosed:
				return filepath.SkipAll
			case errors.Is(err, fs.ErrPermission):
				list = append(list, inside)
				return filepath.SkipDir
			case err != nil:
				return filepath.SkipDir
			case !d.IsDir():
				return nil
			}
			var st unix.Stat_t
			if unix.Lstat(path, &st) == nil && st.Mode&othersEnter != othersEnter {
				list = append(list, inside)
				return filepath.SkipDir
			}
			if strings.Count(inside, "/") >= closedDepth {
				return filepath.SkipDir
			}
			return nil
		})
	}
	return list
}

// openClosed replaces each directory of the host that the sandbox's user may not read by an empty
// directory.
func (h *Host) openClosed(t *tree) error {
	text, err := os.ReadFile(filepath.Join(h.cache, h.name, preparedDir, closedName))
	if err != nil || len(text) == 0 {
		return err
	}
	for name := range bytes.SplitSeq(text, []byte{0}) {
		if err := t.replaceClosed(strings.TrimPrefix(string(name), "/")); err != nil {
			return fmt.Errorf("show %s empty: %w", name, err)
		}
	}
	return nil
}

// replaceClosed mounts an empty directory over one that cannot be read. It leaves one that can be read,
// or is gone.
func (t *tree) replaceClosed(rel string) error {
	open := func(flags uint64) (int, error) {
		return unix.Openat2(t.fd, rel, &unix.OpenHow{
			Flags: flags | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
		})
	}
	fd, err := open(unix.O_RDONLY)
	if err == nil {
		defer unix.Close(fd)
		if unix.Faccessat(fd, ".", unix.X_OK, 0) != unix.EACCES { // names in it can be looked up
			return nil
		}
	} else if err != unix.EACCES {
		return nil
	}
	at, err := open(unix.O_PATH)
	if err != nil {
		return unlessGone(err)
	}
	defer unix.Close(at)
	return t.coverOpen(at)
}

// coverOpen mounts an empty directory of the tree over an open one.
func (t *tree) coverOpen(fd int) error {
	dir := fmt.Sprintf("%s/closed-%d", Own, t.closed)
	t.closed++
	if err := t.makeDir(dir, 0o755); err != nil {
		return err
	}
	return unix.Mount(t.path(dir), fmt.Sprintf("/proc/self/fd/%d", fd), "", unix.MS_BIND, "")
}
