package risk

import (
	"bytes"
	"os"
	"slices"

	"github.com/bothy-dev/bothy/internal/review/beneath"
)

// Kinds of files that run, by their first bytes.
const (
	aScript  = "a script"
	aProgram = "a compiled program"
)

// programs are the first bytes of compiled programs for Linux, macOS (several kinds) and Java. A
// Windows program begins with two letters, as a text may.
var programs = []string{"\x7fELF", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "\xca\xfe\xba\xbf"}

// HeadOf returns the kind of runnable file by its first bytes; empty for any other file.
func HeadOf(f *os.File) string {
	b := make([]byte, 64)
	n, _ := f.ReadAt(b, 0)
	b = b[:n]
	switch {
	case bytes.HasPrefix(b, []byte("#!")):
		return aScript
	case bytes.HasPrefix(b, []byte("MZ")) && bytes.IndexByte(b, 0) > 0,
		slices.ContainsFunc(programs, func(p string) bool { return bytes.HasPrefix(b, []byte(p)) }):
		return aProgram
	}
	return ""
}

// HeadOnHost does the same for a file of the host. A file that cannot be read may be a script.
func HeadOnHost(d *beneath.Dir, name string, was beneath.Entry) string {
	if was.Form != beneath.File {
		return ""
	}
	f, err := d.OpenSeen(name, was.Mark)
	if err != nil {
		return aScript
	}
	defer f.Close()
	return HeadOf(f)
}
