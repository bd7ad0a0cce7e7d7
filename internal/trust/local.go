package trust

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// localDirs are the directories in which distributions keep a host's own authorities. They make their
// bundles from them.
var localDirs = []string{
	"/usr/local/share/ca-certificates",          // Debian, Alpine
	"/etc/pki/ca-trust/source/anchors",          // Fedora, RHEL
	"/etc/pki/trust/anchors",                    // openSUSE
	"/etc/ca-certificates/trust-source/anchors", // Arch
}

// MaxLocal bounds the host's own authorities, in bytes: there are few.
const MaxLocal = 192 << 10

// maxFiles bounds the number of files that are read in such a directory.
const maxFiles = 100

// Local returns in PEM the authorities that only this host trusts: those that its administrator added,
// and others that the caller names. Many programs have the public ones built in, and lack these.
// Authorities beyond the bounds are left out.
func Local(root string, named []byte) []byte {
	text := named
	for _, dir := range localDirs {
		entries, _ := os.ReadDir(root + dir)
		for _, e := range entries[:min(len(entries), maxFiles)] {
			if ext := filepath.Ext(e.Name()); ext != ".crt" && ext != ".pem" {
				continue
			}
			if more := readLocal(filepath.Join(root+dir, e.Name())); len(text)+len(more) <= MaxLocal {
				text = slices.Concat(text, more)
			}
		}
	}
	return text
}

// Beyond returns the certificates of a text in PEM that are not in the host's bundle.
func Beyond(root string, text []byte) []byte { return parsePEM(text).without(Find(root)).pem }

// readLocal reads a file of certificates, if every user may.
func readLocal(path string) []byte {
	text, err := readBundle(path)
	if err != nil {
		return nil
	}
	return parsePEM(text).pem
}

// IsBundle reports whether a file is the bundle of the host.
func IsBundle(root, file string) bool {
	a, err := os.Stat(file)
	return err == nil && slices.ContainsFunc(Bundles, func(name string) bool {
		b, err := os.Stat(strings.Join([]string{root, "etc", name}, "/"))
		return err == nil && os.SameFile(a, b)
	})
}
