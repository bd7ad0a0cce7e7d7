package gitdefaults

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
)

// Signing tells how the person's commits are signed with SSH.
type Signing struct {
	Key           string // the public key, as git writes it in a setting; empty: the agent's first
	Commits, Tags bool
	Left          []string // settings that were not taken, with reasons
}

// signing reads how commits are signed. Formats other than SSH do not use an SSH agent: their settings
// are not taken.
func (a *asker) signing(list map[string]setting, p *Person) {
	if list["gpg.format"].value != "ssh" {
		return
	}
	p.Signing.Commits, p.Signing.Tags = isTrue(list["commit.gpgsign"]), isTrue(list["tag.gpgsign"])
	s, set := list["user.signingkey"]
	if !set {
		return
	}
	const what = "your key for signatures (user.signingKey)"
	text, literal := strings.CutPrefix(s.value, "key::")
	if !literal && !strings.HasPrefix(s.value, "ssh-") {
		path := a.namedPath(s, what, &p.Signing.Left)
		if path == "" {
			return
		}
		var err error
		if text, err = a.publicKey(path); err != nil {
			noteLeft(&p.Signing.Left, "%s: %v", what, err)
			return
		}
	}
	key, ok := plainKey(text)
	if !ok {
		noteLeft(&p.Signing.Left, "%s: it is not a public key of SSH", what)
		return
	}
	p.Signing.Key = "key::" + key
}

// plainKey returns a public key without its comment: its kind, and the key itself, which begins with the
// kind again (RFC 4253, section 6.6). It refuses lines with anything else, and private keys. Package
// x/crypto/ssh could do the same, but every command would initialise it.
func plainKey(line string) (string, bool) {
	fields := strings.Fields(line)
	if len(fields) < 2 || strings.ContainsAny(strings.TrimSpace(line), "\r\n") {
		return "", false
	}
	kind, text := fields[0], fields[1]
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) < 4 {
		return "", false
	}
	if n := binary.BigEndian.Uint32(key); uint64(n) >= uint64(len(key)-4) || string(key[4:4+n]) != kind {
		return "", false
	}
	return kind + " " + text, true
}

// publicKey reads the public key to which git has a path, or a path to the private key next to it, which
// is not read.
func (a *asker) publicKey(path string) (string, error) {
	if !strings.HasSuffix(path, ".pub") {
		text, err := a.readFile(path+".pub", maxKeyFile)
		if !errors.Is(err, fs.ErrNotExist) {
			return string(text), err
		}
	}
	text, err := a.readFile(path, maxKeyFile)
	return string(text), err
}

// isTrue reads a switch as git does.
func isTrue(s setting) bool {
	switch strings.ToLower(s.value) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}
