package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
)

// Stages is the directory in which the wall mounts the directories that init attaches elsewhere.
const Stages = "/.bothy/mounts"

// Attachments is the keeper's list of mounts to attach, in this order.
const Attachments = Stages + "/list"

// attachAll carries out the keeper's list. It returns the number of completed steps, and the error of
// the next one. Other processes may change the directories on the path meanwhile. So attachAll opens
// each directory by one name from its parent, follows no link, and mounts onto the opened directory.
func attachAll() (done int, err error) {
	data, err := os.ReadFile(Attachments)
	if err != nil {
		return 0, err
	}
	var steps []wire.Attachment
	if err := json.Unmarshal(data, &steps); err != nil {
		return 0, fmt.Errorf("read %s: %w", Attachments, err)
	}
	for i, s := range steps {
		if err := attach(s); err != nil {
			return i, fmt.Errorf("attach %s: %w", s.Target, err)
		}
	}
	return len(steps), nil
}

// attach mounts a stage onto its target, or the target onto itself.
func attach(s wire.Attachment) error {
	asDir := true
	if s.Stage != "" {
		var st unix.Stat_t
		if err := unix.Stat(s.Stage, &st); err != nil {
			return err
		}
		asDir = st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	fd, err := openTarget(s, asDir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	target := fmt.Sprintf("/proc/self/fd/%d", fd)
	if s.Stage == "" {
		return unix.Mount(target, target, "", unix.MS_BIND, "")
	}
	// Not moved: gVisor moves no mount of a file.
	if err := unix.Mount(s.Stage, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Unmount(s.Stage, unix.MNT_DETACH)
}

// openTarget opens a mount point, and makes it if asked to.
func openTarget(s wire.Attachment, asDir bool) (int, error) {
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	steps := strings.Split(strings.Trim(s.Target, "/"), "/")
	for i, name := range steps {
		next, err := openName(at, name, asDir || i < len(steps)-1, s.Make)
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// openName opens a directory, or a regular file, by one name.
func openName(dir int, name string, asDir, create bool) (int, error) {
	if create {
		if err := createName(dir, name, asDir); err != nil {
			return -1, err
		}
	}
	flags := unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if asDir {
		flags |= unix.O_DIRECTORY
	}
	fd, err := unix.Openat(dir, name, flags, 0)
	if err != nil || asDir {
		return fd, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// createName makes a directory or an empty file, unless the name exists.
func createName(dir int, name string, asDir bool) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if asDir {
		return unix.Mkdirat(dir, name, 0o755)
	}
	return unix.Mknodat(dir, name, unix.S_IFREG|0o644, 0)
}

// attachError returns the error number that the keeper is told.
func attachError(err error) int {
	var errno unix.Errno
	if err != nil && !errors.As(err, &errno) {
		return int(unix.EIO)
	}
	return int(errno)
}
