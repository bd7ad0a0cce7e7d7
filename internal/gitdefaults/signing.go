package gitdefaults

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Signing is how the person has commits signed by SSH.
type Signing struct {
	Key           string // the public key, as git writes it in a setting; empty: the first that the agent has
	Commits, Tags bool
	Left          []string // what was not taken, and why
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
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		leave(&p.Signing.Left, "%s: it is no public key of SSH", what)
		return
	}
	p.Signing.Key = "key::" + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
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
