package archive

import (
	"crypto/rand"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// tempPrefix marks a file that is being written, next to the name that it gets when it is complete.
const tempPrefix = ".bothy-cp-"

// linkSuffix follows the name of a file that is locked while a link is made.
const linkSuffix = ".link"

// tempTries bounds how often a new file may be taken for a leftover before it is locked.
const tempTries = 16

// createTemp makes a file in a directory, locked as long as it is open: an unlocked one was left by a
// copy that was killed.
func createTemp(dir int) (*os.File, string, error) {
	for range tempTries {
		temp := tempPrefix + rand.Text()
		fd, err := unix.Openat(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, "", err
		}
		if lockOwn(fd, dir, temp) {
			return os.NewFile(uintptr(fd), temp), temp, nil
		}
		unix.Close(fd)
	}
	return nil, "", unix.EBUSY
}

// lockOwn locks a file, and reports whether it still has its name then.
func lockOwn(fd, dir int, name string) bool {
	var here, there unix.Stat_t
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil &&
		unix.Fstat(fd, &here) == nil && unix.Fstatat(dir, name, &there, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		here.Dev == there.Dev && here.Ino == there.Ino
}

// removeLeftovers removes the files and links that killed copies left in a directory.
func removeLeftovers(dir int) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			if strings.HasPrefix(name, tempPrefix) {
				removeLeftover(dir, name)
			}
		}
		if err != nil {
			return
		}
	}
}

// removeLeftover removes a file that is not being written any more, or a link whose file is not.
func removeLeftover(dir int, name string) {
	if locked, isLink := strings.CutSuffix(name, linkSuffix); isLink {
		if removeUnlocked(dir, locked) {
			_ = unix.Unlinkat(dir, name, 0)
		}
		return
	}
	if link := name + linkSuffix; removeUnlocked(dir, name) {
		_ = unix.Unlinkat(dir, link, 0)
	}
}

// removeUnlocked removes a file unless it is locked. It returns true if the file does not exist
// afterwards.
func removeUnlocked(dir int, name string) bool {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG &&
		lockOwn(fd, dir, name) && unix.Unlinkat(dir, name, 0) == nil
}
