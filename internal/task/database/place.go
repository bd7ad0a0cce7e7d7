package database

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// nameOfRemote names a file system that several machines may use at once, by its type of statfs(2). It is
// empty for any other. Processes with a write-ahead log coordinate through shared memory. On such a file
// system each machine would map its own memory, and they would overwrite each other.
func nameOfRemote(kind uint32) string {
	switch kind {
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return "SMB"
	case unix.AFS_FS_MAGIC, unix.AFS_SUPER_MAGIC:
		return "AFS"
	case unix.CEPH_SUPER_MAGIC:
		return "Ceph"
	case unix.CODA_SUPER_MAGIC:
		return "Coda"
	}
	return ""
}

// kindOf returns the type of a directory's file system.
var kindOf = func(dir string) (uint32, error) {
	var at unix.Statfs_t
	err := unix.Statfs(dir, &at)
	return uint32(at.Type), err
}

// checkLocal refuses a directory on a remote file system.
func checkLocal(dir string) error {
	kind, err := kindOf(dir)
	if err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	if name := nameOfRemote(kind); name != "" {
		return hintElsewhere(spec.Errorf(nil, "%s is on %s, where no database can be kept that several processes write to", dir, name))
	}
	return nil
}

// hintElsewhere adds a hint for a file system that does not suit the database.
func hintElsewhere(err *spec.Error) *spec.Error {
	return err.WithHint("have Bothy's state on a disk of this machine: set BOTHY_HOME, see docs/reference/state.md")
}
