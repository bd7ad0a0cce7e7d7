package archive

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tempPrefix marks a file that is being written, beside the name that it gets when it is
// whole.
const tempPrefix = ".bothy-cp-"

// linkSuffix follows the name of a file that is locked while a link is made.
const linkSuffix = ".link"

// tempTries bounds how often others may come in between before a name is taken that nobody
// else has.
const tempTries = 8

// createTemp makes a file beside the name it shall have, locked as long as it is open. Its
// name follows from that: one that somebody left who was killed is found, unlocked, and
// removed.
func createTemp(dir int, base string) (*os.File, string, error) {
	temp := tempName(base)
	for try := 0; ; try++ {
		if try > 0 && (try >= tempTries || !removeStale(dir, temp)) { // somebody is writing the same
			temp = tempPrefix + rand.Text()
		}
		fd, err := unix.Openat(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if errors.Is(err, unix.EEXIST) && try < 2*tempTries {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if owns(fd, dir, temp) {
			return os.NewFile(uintptr(fd), temp), temp, nil
		}
		unix.Close(fd) // taken for a leftover in the moment before it was locked
		if try >= 2*tempTries {
			return nil, "", unix.EBUSY
		}
	}
}

// tempName is what createTemp calls the file, unless another copy writes the same.
func tempName(base string) string {
	sum := sha256.Sum256([]byte(base))
	return tempPrefix + hex.EncodeToString(sum[:8])
}

// owns locks a file, and tells whether it still has its name then.
func owns(fd, dir int, name string) bool {
	var here, there unix.Stat_t
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil &&
		unix.Fstat(fd, &here) == nil && unix.Fstatat(dir, name, &there, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		here.Dev == there.Dev && here.Ino == there.Ino
}

// removeStale removes a file that is not being written any more.
func removeStale(dir int, name string) bool {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	defer unix.Close(fd)
	return owns(fd, dir, name) && unix.Unlinkat(dir, name, 0) == nil
}
