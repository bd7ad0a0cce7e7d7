package template

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// libraries are the directories in which what programs have in memory usually lies.
var libraries = []string{
	"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/local/bin", "/usr/local/lib",
	"/usr/lib/*-linux-*", "/bin", "/sbin", "/lib", "/lib64", "/lib/*-linux-*",
}

// Fingerprint is another when programs or libraries of the host were installed,
// replaced or removed. It goes by when their directories changed: package managers put
// a new file into the place of the old. What lies deeper, or elsewhere, or is written
// over in its place, is not noticed.
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
