package hostroot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// libraries are the directories that usually contain the files that programs map into memory.
var libraries = []string{
	"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/local/bin", "/usr/local/lib",
	"/usr/lib/*-linux-*", "/bin", "/sbin", "/lib", "/lib64", "/lib/*-linux-*",
}

// Fingerprint changes when programs or libraries of the host were installed, replaced or removed.
// It goes by the change times of their directories: package managers replace an old file by a new
// one. It does not notice files that are deeper, elsewhere, or overwritten in place.
func Fingerprint() string { return source{}.fingerprint() }

func (s source) fingerprint() string {
	h := sha256.New()
	for _, pattern := range libraries {
		dirs, _ := filepath.Glob(s.path(pattern)) // the patterns are well-formed
		for _, dir := range dirs {
			var st unix.Stat_t
			if unix.Stat(dir, &st) == nil {
				fmt.Fprintln(h, dir, st.Ino, st.Mtim.Sec, st.Mtim.Nsec)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
