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

// version is how both ends call themselves.
const version = "SSH-2.0-Bothy"

// skew is how wrong a clock inside may be. A certificate counts for a connection.
const skew = 24 * time.Hour

// Key is what a sandbox knows its servers of SSH by: an authority, and the one key that
// it vouches for under all their names. Neither is ever inside. Most sandboxes never speak
// SSH, and every start waits for this: the one key is made when it is first needed.
type Key struct {
	authority ssh.Signer
	host      func() (ssh.Signer, error)
	now       func() time.Time
}

// NewKey makes the authority of a secret of 32 bytes: the same of the same.
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

// KnownHosts is the line by which ssh inside trusts the authority. It is not about plain
// keys: of a server that is not looked into ssh sees the real one.
func (k *Key) KnownHosts() []byte {
	key := k.authority.PublicKey()
	return []byte("@cert-authority * " + key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal()) + "\n")
}

// config is that of a server by this name. The plain key is for clients that know of no
// certificates, and have to be told not to mind.
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
