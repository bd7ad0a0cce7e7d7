package gitdefaults

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
)

// Signing is how the person has commits signed by SSH.
type Signing struct {
	Key           string // the public key, as git writes it in a setting; empty: the first that the agent has
	Commits, Tags bool
	Left          []string // settings that were not taken, with reasons
}

// signing reads how commits are signed. Other formats than that of SSH are not for an SSH
// agent: of those nothing is taken.
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
		path := a.named(s, what, &p.Signing.Left)
		if path == "" {
			return
		}
		var err error
		if text, err = a.publicKey(path); err != nil {
			leave(&p.Signing.Left, "%s: %v", what, err)
			return
		}
	}
	key, ok := plainKey(text)
	if !ok {
		leave(&p.Signing.Left, "%s: it is no public key of SSH", what)
		return
	}
	p.Signing.Key = "key::" + key
}

// plainKey is a public key without its comment: its kind, and the key itself, which begins
// with the kind again (RFC 4253, section 6.6). What else such a line may hold is refused, as
// are private keys. Package x/crypto/ssh would tell the same, and be initialised by every
// command.
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

// publicKey reads the public key that git is told of by the path of it, or of the private
// one beside it, which is not read.
func (a *asker) publicKey(path string) (string, error) {
	if !strings.HasSuffix(path, ".pub") {
		text, err := a.read(path+".pub", maxKeyFile)
		if !errors.Is(err, fs.ErrNotExist) {
			return string(text), err
		}
	}
	text, err := a.read(path, maxKeyFile)
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
