package trust

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxBundle bounds the bundle that is read. Usual ones have 250 KiB.
const maxBundle = 8 << 20

var (
	beginMark = []byte("-----BEGIN CERTIFICATE-----")
	endMark   = []byte("-----END CERTIFICATE-----")
)

// Roots are authorities that are trusted.
type Roots struct {
	pem   []byte
	certs [][]byte // in DER
	texts [][]byte // the same in PEM
}

// Empty reports whether the list has no authority.
func (r Roots) Empty() bool { return len(r.certs) == 0 }

// without returns the authorities that are not among others, each once.
func (r Roots) without(others Roots) (rest Roots) {
	known := make(map[string]bool, len(others.certs))
	for _, der := range others.certs {
		known[string(der)] = true
	}
	for i, der := range r.certs {
		if known[string(der)] {
			continue
		}
		known[string(der)] = true
		rest.certs = append(rest.certs, der)
		rest.pem = append(append(rest.pem, r.texts[i]...), '\n')
	}
	return rest
}

// State returns a text that differs if the bundle was changed, without reading the bundle. A link in
// /etc may lead to it.
func State(root string) string {
	for _, name := range Bundles {
		var st unix.Stat_t
		if unix.Stat(root+"/etc/"+name, &st) == nil {
			return fmt.Sprint(name, st.Dev, st.Ino, st.Mode, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		}
	}
	return ""
}

// Find reads the bundle of the host whose tree starts at root; "" is this host. It takes only
// certificates, and only if every user may read the file.
func Find(root string) Roots {
	for _, name := range Bundles {
		text, err := readBundle(root + "/etc/" + name)
		if err != nil {
			continue
		}
		if r := parsePEM(text); !r.Empty() {
			return r
		}
	}
	return Roots{}
}

func readBundle(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o004 == 0 || info.Size() > maxBundle {
		return nil, fmt.Errorf("%s is not a bundle", path)
	}
	b := make([]byte, info.Size())
	_, err = io.ReadFull(f, b)
	return b, err
}

// parsePEM takes the certificates out of a bundle and drops everything else. A block that
// cannot be decoded is not a certificate.
func parsePEM(text []byte) Roots {
	r := Roots{pem: make([]byte, 0, len(text)+1)}
	der := make([]byte, 0, len(text)) // of all certificates, one after another
	for {
		b, rest, ok := nextBlock(text)
		if !ok {
			return r
		}
		text = rest
		start := len(der)
		if der, ok = b.decode(der); !ok {
			continue
		}
		r.certs = append(r.certs, der[start:])
		r.texts = append(r.texts, b.text)
		r.pem = append(append(r.pem, b.text...), '\n')
	}
}

// block is a certificate in PEM.
type block struct {
	before []byte // text between it and the previous one
	text   []byte // from the first dash to the last
}

// nextBlock finds the first certificate and the text after it. A block without an end does
// not count.
func nextBlock(text []byte) (b block, rest []byte, ok bool) {
	for from := 0; ; {
		end := bytes.Index(text[from:], endMark)
		if end < 0 {
			return block{}, text, false
		}
		end += from
		if begin := bytes.LastIndex(text[:end], beginMark); begin >= 0 {
			end += len(endMark)
			return block{text[:begin], text[begin:end]}, text[end:], true
		}
		from = end + len(endMark)
	}
}

// decode appends the certificate to der. ok is false if it cannot be a certificate.
func (b block) decode(der []byte) ([]byte, bool) {
	body := b.text[len(beginMark) : len(b.text)-len(endMark)]
	start := len(der)
	out, err := base64.StdEncoding.AppendDecode(der, body)
	if err != nil || len(out)-start < 16 || out[start] != derSequence {
		return der, false
	}
	return out, true
}

// derSequence is the first byte of a certificate in DER.
const derSequence = 0x30

// Renew updates a bundle that was made inside, possibly at an earlier start. It removes the authorities
// of all starts and adds the one of this start, given by its certificate in PEM.
func Renew(bundle, authority []byte) []byte {
	out := make([]byte, 0, len(bundle)+len(authority)+1)
	var der []byte
	for {
		b, rest, ok := nextBlock(bundle)
		if !ok {
			break
		}
		out = append(out, b.before...)
		if der, ok = b.decode(der[:0]); ok && bytes.Contains(der, []byte(CommonName)) {
			rest = bytes.TrimPrefix(rest, []byte("\n"))
		} else {
			out = append(out, b.text...)
		}
		bundle = rest
	}
	out = append(out, bundle...)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return append(out, authority...)
}

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
