package hostroot

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Names in the cache directory.
const (
	snapshotPrefix = "etc-"
	tempPrefix     = "tmp-"
)

// attempts is how often a copy is tried while /etc keeps changing under it.
const attempts = 3

// snapshot returns the name of the copy that shows /etc as it is now, and a descriptor that holds
// it in place.
func (s source) snapshot(cache string, mounts []mount) (name string, lock int, err error) {
	if err := privateDir(cache); err != nil {
		return "", -1, err
	}
	fingerprint, err := s.scanTree(s.path("/etc"), mounts, nil)
	if err != nil {
		return "", -1, err
	}
	for {
		name = snapshotPrefix + fingerprint
		lock, err = lockDir(filepath.Join(cache, name))
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return name, lock, err
		}
		fingerprint, lock, err = s.makeSnapshot(cache, mounts)
		if err != nil {
			return "", -1, err
		}
		if lock >= 0 {
			name = snapshotPrefix + fingerprint
			sweepCache(cache, name)
			return name, lock, nil
		}
		// Another keeper was quicker: take the one it made.
	}
}

// privateDir makes sure that a directory exists and that only the caller can change it.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0 {
		return nil
	}
	return spec.Errorf(spec.ErrConflict, "use %s: it is not a directory that only you can write to", dir).
		WithHint("move it away, or chmod go-w it")
}

// lockDir opens a directory of the cache and locks it against removal. It treats a directory that is being
// removed as missing.
func lockDir(dir string) (int, error) {
	for range 500 {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: dir, Err: err}
		}
		err = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
		if err == nil && stillAt(fd, dir) {
			return fd, nil
		}
		unix.Close(fd)
		switch err {
		case nil: // it was renamed between the two calls
		case unix.EWOULDBLOCK, unix.EINTR:
			time.Sleep(2 * time.Millisecond)
		default:
			return -1, &os.PathError{Op: "lock", Path: dir, Err: err}
		}
	}
	return -1, spec.Errorf(spec.ErrConflict, "lock %s: another process is removing it and does not come to an end", dir)
}

// stillAt reports whether the path still leads to the open directory.
func stillAt(fd int, path string) bool {
	var a, b unix.Stat_t
	return unix.Fstat(fd, &a) == nil && unix.Lstat(path, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// makeSnapshot copies /etc and puts the copy into the cache. The lock is -1 if the cache already
// has it.
func (s source) makeSnapshot(cache string, mounts []mount) (fingerprint string, lock int, err error) {
	for try := 1; ; try++ {
		temp, fd, err := makeTemp(cache)
		if err != nil {
			return "", -1, err
		}
		fingerprint, err := s.fillSnapshot(fd, mounts)
		if err != nil {
			discard(temp, fd)
			return "", -1, err
		}
		if try < attempts && !s.unchanged(fingerprint, mounts) {
			// It changed while it was read. The last try is kept as it is: it is found again only
			// if /etc goes back to exactly this state.
			discard(temp, fd)
			continue
		}
		switch err := unix.Rename(temp, filepath.Join(cache, snapshotPrefix+fingerprint)); err {
		case nil:
			return fingerprint, fd, nil
		case unix.ENOTEMPTY, unix.EEXIST:
			discard(temp, fd)
			return fingerprint, -1, nil
		default:
			discard(temp, fd)
			return "", -1, fmt.Errorf("put the copy into %s: %w", cache, err)
		}
	}
}

// makeTemp makes a directory that sweepCache does not take for an orphan.
func makeTemp(cache string) (string, int, error) {
	for {
		dir := filepath.Join(cache, tempPrefix+rand.Text())
		if err := os.Mkdir(dir, 0o700); err != nil {
			return "", -1, err
		}
		lock, err := lockDir(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue // a sweep was quicker than the lock
		}
		return dir, lock, err
	}
}

func discard(temp string, lock int) {
	_ = os.RemoveAll(temp) // the rest is swept later
	unix.Close(lock)
}

func (s source) fillSnapshot(dst int, mounts []mount) (fingerprint string, err error) {
	c := &copier{dirs: []int{dst}}
	defer c.close()
	fingerprint, err = s.scanTree(s.path("/etc"), mounts, c)
	if err != nil {
		return "", err
	}
	if err := s.addOwnFiles(dst); err != nil {
		return "", err
	}
	if err := unix.Fchmod(dst, 0o755); err != nil { // it becomes /etc; the cache around it stays closed
		return "", err
	}
	if bootID() == "" {
		// Only this distinguishes the copy from one that a crash cut short.
		err = unix.Syncfs(dst)
	}
	return fingerprint, err
}

func (s source) unchanged(fingerprint string, mounts []mount) bool {
	now, err := s.scanTree(s.path("/etc"), mounts, nil)
	return err == nil && now == fingerprint
}

// sweepCache removes unused directories from the cache: orphaned temporary directories, and every copy
// but keep.
func sweepCache(cache, keep string) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := e.Name()
		if name != keep && (strings.HasPrefix(name, snapshotPrefix) || strings.HasPrefix(name, tempPrefix)) {
			remove(cache, name)
		}
	}
}

// remove deletes a directory of the cache unless a process holds it. It first renames it to a
// temporary name, because a copy with its own name must be whole.
func remove(cache, name string) {
	dir := filepath.Join(cache, name)
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil || !stillAt(fd, dir) {
		return
	}
	temp := filepath.Join(cache, tempPrefix+rand.Text())
	if os.Rename(dir, temp) == nil {
		_ = os.RemoveAll(temp) // the rest is swept later
	}
}
