package quota

import "golang.org/x/sys/unix"

// Free is what the file system has free that a path lies on. One that does not count
// its files tells of none.
func Free(path string) (Use, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Use{}, err
	}
	return Use{Bytes: int64(st.Bfree) * st.Frsize, Files: int64(st.Ffree)}, nil
}
