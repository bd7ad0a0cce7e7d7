package gitssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// version is the version string of both ends.
const version = "SSH-2.0-Bothy"

// skew is how wrong a clock inside may be. A certificate is valid for one connection.
const skew = 24 * time.Hour

// Key is the key that a sandbox knows its SSH servers by: an authority, and one key that the
// authority certifies under all their names. Neither is ever inside. Most sandboxes never speak
// SSH, and every start would wait for the key: so it is made when it is first needed.
type Key struct {
	authority ssh.Signer
	host      func() (ssh.Signer, error)
	now       func() time.Time
}

// NewKey makes the authority from a secret of 32 bytes. The same secret gives the same authority.
func NewKey(secret []byte, now func() time.Time) (*Key, error) {
	if len(secret) != ed25519.SeedSize {
		return nil, fmt.Errorf("a secret of %d bytes", len(secret))
	}
	authority, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(secret))
	if err != nil {
		return nil, err
	}
	return &Key{authority, sync.OnceValues(newHost), now}, nil
}

func newHost() (ssh.Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return ssh.NewSignerFromKey(private)
}

// KnownHosts returns the line by which ssh inside trusts the authority. It is not about plain keys:
// on a connection that is not inspected, ssh sees the server's real key.
func (k *Key) KnownHosts() []byte {
	key := k.authority.PublicKey()
	return []byte("@cert-authority * " + key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal()) + "\n")
}

// config returns the configuration of a server by this name. The plain key is for clients without
// certificates, which their users have to tell to accept it.
func (k *Key) config(name string) (*ssh.ServerConfig, error) {
	host, err := k.host()
	if err != nil {
		return nil, err
	}
	now := k.now()
	cert := &ssh.Certificate{
		Key: host.PublicKey(), CertType: ssh.HostCert, KeyId: "bothy", ValidPrincipals: []string{name},
		ValidAfter: uint64(now.Add(-skew).Unix()), ValidBefore: uint64(now.Add(skew).Unix()),
	}
	if err := cert.SignCert(rand.Reader, k.authority); err != nil {
		return nil, err
	}
	vouched, err := ssh.NewCertSigner(cert, host)
	if err != nil {
		return nil, err
	}
	conf := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: version}
	conf.AddHostKey(vouched)
	conf.AddHostKey(host)
	return conf, nil
}
