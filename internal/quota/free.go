package quota

import "golang.org/x/sys/unix"

// Free returns the free space of a path's file system. The number of files is zero if the file system
// does not count them.
func Free(path string) (Use, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Use{}, err
	}
	return Use{Bytes: int64(st.Bfree) * st.Frsize, Files: int64(st.Ffree)}, nil
}
