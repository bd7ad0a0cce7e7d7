package listen

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Certificate proves to clients of TCP addresses that they speak with this server. Its zero value means no
// TLS.
type Certificate struct {
	config *tls.Config
	// Fingerprint is the SHA-256 of the certificate, in hex.
	Fingerprint string
}

func (c *Certificate) wrapListener(l net.Listener) net.Listener { return tls.NewListener(l, c.config) }

// Given returns the certificate of a person: the text of its files, in PEM.
func Given(cert, key []byte) (Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return Certificate{}, spec.Errorf(spec.ErrUsage, "use the certificate: %w", err).WithHint("--tls-cert and --tls-key take files in PEM")
	}
	return certificateOf(pair), nil
}

func certificateOf(pair tls.Certificate) Certificate {
	sum := sha256.Sum256(pair.Certificate[0])
	return Certificate{
		// HTTP/1 alone: a WebSocket needs it, and one connection cannot open streams without end.
		config:      &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
		Fingerprint: hex.EncodeToString(sum[:]),
	}
}

// ownLasts is how long a certificate that Made makes is valid. Clients compare its fingerprint.
const ownLasts = 10 * 365 * 24 * time.Hour

// Made returns the certificate that a state directory has made for itself. It makes it once, so that its
// fingerprint stays.
func Made(s *store.Store) (Certificate, error) {
	path := filepath.Join(s.API(), "tls.pem")
	if err := os.MkdirAll(s.API(), 0o700); err != nil {
		return Certificate{}, err
	}
	lock, err := store.WaitLock(filepath.Join(s.API(), "tls.lock"))
	if err != nil {
		return Certificate{}, err
	}
	defer lock.Unlock()
	text, err := store.ReadSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = makePair(); err == nil {
			err = store.WriteFile(path, text)
		}
	}
	if err != nil {
		return Certificate{}, &spec.Error{Op: "make a certificate", Err: err}
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return Certificate{}, (&spec.Error{Op: "read " + path, Err: err}).WithHint("remove the file: the next start makes another certificate, with another fingerprint")
	}
	return certificateOf(pair), nil
}

// makePair returns a certificate and its key, in PEM.
func makePair() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "bothy serve"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(ownLasts),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...), nil
}
