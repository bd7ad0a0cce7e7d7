package archive

import (
	"io/fs"
	"syscall"
)

// fileID tells files with several names apart.
type fileID struct{ dev, ino uint64 }

// seen gives the name a file was archived under before, if it has several
// names and was.
func (a *writer) seen(info fs.FileInfo, name string) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || st.Nlink < 2 {
		return ""
	}
	id := fileID{uint64(st.Dev), st.Ino}
	if first, ok := a.links[id]; ok {
		return first
	}
	a.links[id] = name
	return ""
}
