package sshagent

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// signatureMagic begins SSHSIG (PROTOCOL.sshsig of OpenSSH). A login begins with the length of its
// session. Read as that length, the magic would exceed any message.
const signatureMagic = "SSHSIG"

// gitPurpose is the namespace of signatures over commits, tags and pushes.
const gitPurpose = "git"

// Flags for the agent: RSA with SHA-2.
const (
	flagSHA256 = 2
	flagSHA512 = 4
)

// hashSize returns the length of a hash. SSHSIG has two kinds.
func hashSize(name string) (size int, ok bool) {
	switch name {
	case "sha256":
		return 32, true
	case "sha512":
		return 64, true
	}
	return 0, false
}

// isSignature reports whether a request asks for a signature in the form SSHSIG, well formed or
// not.
func isSignature(q []byte) bool {
	if len(q) < 5 {
		return false
	}
	key := uint64(binary.BigEndian.Uint32(q[1:5]))
	data := 5 + key + 4
	return uint64(len(q)) >= data && bytes.HasPrefix(q[data:], []byte(signatureMagic))
}

// signForGit asks the agent to sign a commit or a tag.
func (c *conversation) signForGit(q []byte) ([]byte, error) {
	key, err := judgeSignature(q)
	use := Use{Signature: true, Err: err}
	if key != nil {
		use.Key = ssh.FingerprintSHA256(key)
	}
	if !c.Signatures() {
		use.Err = refusal("signatures are not lent (--lend ssh-sign)")
	}
	return c.passSignature(q, use)
}

// judgeSignature reads a request. Every byte has to be the expected one.
func judgeSignature(q []byte) (ssh.PublicKey, error) {
	const malformed = refusal("it is not a signature that git asks for")
	var ask struct {
		Key   []byte `sshtype:"13"`
		Data  []byte
		Flags uint32
	}
	if ssh.Unmarshal(q, &ask) != nil {
		return nil, malformed
	}
	key, err := ssh.ParsePublicKey(ask.Key)
	if err != nil {
		return nil, malformed
	}
	rest, found := bytes.CutPrefix(ask.Data, []byte(signatureMagic))
	var blob struct{ Purpose, Reserved, Algorithm, Hash string }
	if !found || ssh.Unmarshal(rest, &blob) != nil {
		return key, malformed
	}
	if blob.Purpose != gitPurpose {
		return key, refusal(fmt.Sprintf("it is a signature for the purpose %.40q, not for %q", blob.Purpose, gitPurpose))
	}
	size, known := hashSize(blob.Algorithm)
	if blob.Reserved != "" || !known || len(blob.Hash) != size {
		return key, malformed
	}
	isRSA := strings.HasPrefix(key.Type(), ssh.KeyAlgoRSA)
	switch {
	case isRSA && (ask.Flags == flagSHA256 || ask.Flags == flagSHA512), !isRSA && ask.Flags == 0:
		return key, nil
	case isRSA && ask.Flags == 0:
		return key, refusal("it is to be made with SHA-1")
	}
	return key, malformed
}
