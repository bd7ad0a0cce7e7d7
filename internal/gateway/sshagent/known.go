package sshagent

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/bothy-dev/bothy/internal/store"
)

// maxKnown bounds a file of keys, in bytes.
const maxKnown = 8 << 20

// Known says which keys servers have. It reads known_hosts as OpenSSH does, and is stricter where
// OpenSSH asks the user: a server that is known at another port is unknown, and a key that is
// revoked anywhere is refused for all servers.
type Known struct {
	lines   []knownLine
	revoked []ssh.PublicKey
}

// knownLine says that servers have a key or, with authority, a certificate by it.
type knownLine struct {
	hosts     knownHosts
	key       ssh.PublicKey
	authority bool
}

// ReadKnown reads files of known hosts. Missing ones are skipped.
func ReadKnown(files []string) (*Known, error) {
	k := &Known{}
	for _, path := range files {
		text, err := readKnown(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		if err := k.parseLines(text); err != nil {
			return nil, err
		}
	}
	if len(k.lines) == 0 {
		return nil, errors.New("the host knows no server: there is none in its known_hosts")
	}
	return k, nil
}

func readKnown(path string) ([]byte, error) {
	f, err := store.OpenRegular(path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("others may write %s", path)
	}
	text, err := store.ReadAll(f, maxKnown)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return text, nil
}

// Marks of lines that do not say which key a server has.
const (
	markAuthority = "@cert-authority"
	markRevoked   = "@revoked"
)

// parseLines takes the lines of a file. An unreadable line is skipped, as ssh does: its key may be of a
// kind that this program does not know. But an unreadable line with a mark may revoke a key, and
// then the revoked key is unknown.
func (k *Known) parseLines(text []byte) error {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		mark := ""
		if fields[0][0] == '@' {
			mark, fields = fields[0], fields[1:]
		}
		l, err := parseLine(fields)
		switch {
		case mark != "" && mark != markAuthority && mark != markRevoked:
			return fmt.Errorf("known_hosts: line %d has a mark that is not known: %.40q", n, mark)
		case mark != "" && err != nil:
			return fmt.Errorf("known_hosts: line %d, with %s: %w", n, mark, err)
		case err != nil:
		case mark == markRevoked:
			k.revoked = append(k.revoked, l.key)
		default:
			l.authority = mark == markAuthority
			k.lines = append(k.lines, l)
		}
	}
	return nil
}

// parseLine reads the part after the mark: hosts, the kind of key, the key.
func parseLine(fields []string) (l knownLine, err error) {
	if len(fields) < 3 {
		return l, errors.New("something is missing")
	}
	blob, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil {
		return l, errors.New("the key cannot be read")
	}
	if l.key, err = ssh.ParsePublicKey(blob); err != nil || l.key.Type() != fields[1] {
		return l, errors.New("the key is of a kind that is not known, or of another than it says")
	}
	l.hosts, err = parseHosts(fields[0])
	return l, err
}

// Check checks that a key belongs to a server, given as host and port.
func (k *Known) Check(at string, key ssh.PublicKey) error {
	checker := ssh.CertChecker{
		IsHostAuthority: func(by ssh.PublicKey, at string) bool { return k.hasKey(at, by, true) },
		IsRevoked:       func(c *ssh.Certificate) bool { return k.isRevoked(c.Key) || k.isRevoked(c.SignatureKey) },
		HostKeyFallback: func(at string, _ net.Addr, key ssh.PublicKey) error { return k.checkKey(at, key) },
	}
	return checker.CheckHostKey(at, &net.TCPAddr{}, key) // the address is ignored
}

// checkKey is Check for a key without a certificate.
func (k *Known) checkKey(at string, key ssh.PublicKey) error {
	switch {
	case k.isRevoked(key):
		return errors.New("it is revoked in known_hosts")
	case k.hasKey(at, key, false):
		return nil
	case len(k.linesAbout(at)) == 0:
		return errors.New("there is none in known_hosts")
	}
	return errors.New("there is another one in known_hosts")
}

func (k *Known) isRevoked(key ssh.PublicKey) bool {
	return slices.ContainsFunc(k.revoked, func(r ssh.PublicKey) bool { return isSame(r, key) })
}

// hasKey reports whether a server has a key or, with authority, is vouched for by that key.
func (k *Known) hasKey(at string, key ssh.PublicKey, authority bool) bool {
	return slices.ContainsFunc(k.linesAbout(at), func(l knownLine) bool { return l.authority == authority && isSame(l.key, key) })
}

func isSame(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// linesAbout returns the lines about a server.
func (k *Known) linesAbout(at string) (list []knownLine) {
	name, err := nameOf(at)
	if err != nil {
		return nil
	}
	for _, l := range k.lines {
		if l.hosts.matchesServer(name) {
			list = append(list, l)
		}
	}
	return list
}

// Algorithms returns the algorithms with which a server can prove that it has one of its known
// keys, or a certificate of a known authority. It returns none for an unknown server. A server that
// has both is asked for the key: its certificate may be of another authority.
func (k *Known) Algorithms(at string) []string {
	var plain, vouched []string
	for _, l := range k.linesAbout(at) {
		switch kind := l.key.Type(); {
		case l.authority:
			vouched = certificates
		case kind == "ssh-dss": // OpenSSH accepts no signature of it either
		case kind == ssh.KeyAlgoRSA: // keys of this type have several signatures
			plain = append(plain, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		default:
			plain = append(plain, kind)
		}
	}
	var list []string
	for _, kind := range append(plain, vouched...) {
		if !slices.Contains(list, kind) {
			list = append(list, kind)
		}
	}
	return list
}

// certificates are the algorithms of keys with a certificate.
var certificates = []string{
	ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
	ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
}
