package manifest

import (
	"golang.org/x/sys/unix"
)

type FileID struct{ Device, Inode uint64 }

func IDOf(st *unix.Stat_t) FileID {
	return FileID{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between machines
}
