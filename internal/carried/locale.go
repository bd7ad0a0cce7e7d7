package carried

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"strings"
)

// language lists the variables that choose a locale.
var language = []string{
	"LANG", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
	"LC_ADDRESS", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_NAME", "LC_PAPER", "LC_TELEPHONE",
}

// locale returns those variables whose locale the host has, and LANGUAGE with one of them. A locale that
// the host lacks, as after ssh from elsewhere, makes programs complain at each start.
func (h host) locale(lookup func(string) (string, bool)) (out []string) {
	known := map[string]bool{}
	for _, name := range language {
		v, ok := lookup(name)
		// LANG=C is the default of jobs and containers. Inside it becomes C.UTF-8.
		if !ok || v == "" || name == "LANG" && (v == "C" || v == "POSIX") {
			continue
		}
		if _, looked := known[v]; !looked {
			known[v] = h.hasLocale(v)
		}
		if known[v] {
			out = append(out, name+"="+v)
		}
	}
	if len(out) > 0 {
		out = append(out, plainVariables(lookup, []string{"LANGUAGE"})...)
	}
	return out
}

// localeDir is where the C library looks for locales, each in a directory, or all in an archive.
const localeDir = "/usr/lib/locale/"

// hasLocale reports whether the host's C library knows a locale.
func (h host) hasLocale(name string) bool {
	switch {
	case name == "C" || name == "POSIX" || name == "C.UTF-8":
		return true
	case len(name) > maxValue || !isASCII(name) || strings.ContainsAny(name, "/ "):
		return false
	}
	for _, n := range []string{name, normal(name)} {
		if info, err := os.Stat(h.root + localeDir + n); err == nil && info.IsDir() {
			return true
		}
	}
	return h.archived(normal(name))
}

// normal writes the character set like the C library: de_DE.UTF-8 becomes de_DE.utf8.
func normal(name string) string {
	base, set, ok := strings.Cut(name, ".")
	if !ok {
		return name
	}
	set, modifier, modified := strings.Cut(set, "@")
	keep := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}
	name = base + "." + strings.Map(keep, strings.ToLower(set))
	if modified {
		name += "@" + modifier
	}
	return name
}

// The head of glibc's locale-archive: a magic number. Its sixth and seventh numbers are the offset and
// the size of the table of locale names.
const (
	archiveMagic = 0xde020109
	archiveHead  = 14 * 4
	maxNames     = 1 << 20
)

// archived reports whether a locale is in the host's archive.
func (h host) archived(name string) bool {
	f, err := os.Open(h.root + localeDir + "locale-archive")
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, archiveHead)
	if _, err := io.ReadFull(f, head); err != nil || binary.NativeEndian.Uint32(head) != archiveMagic {
		return false
	}
	at, size := binary.NativeEndian.Uint32(head[5*4:]), binary.NativeEndian.Uint32(head[6*4:])
	names := make([]byte, min(size, maxNames))
	if _, err := f.ReadAt(names, int64(at)); err != nil {
		return false
	}
	return bytes.Contains(append([]byte{0}, names...), append(append([]byte{0}, name...), 0))
}
