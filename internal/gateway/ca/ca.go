// Package ca is the certificate authority of one sandbox. It vouches only towards programs inside,
// and only for the gateway, which reads along where a rule or a secret makes it.
//
// Its key is made when the sandbox starts. The key exists in the keeper's memory and, sealed like
// the user's secrets, next to a memory image of programs that trust it. A thief of the key could
// deceive only this sandbox, while it runs.
package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/internal/wire"
)

// Lifetimes of certificates. Clocks inside may be wrong by a day.
const (
	rootLife = 10 * 365 * 24 * time.Hour
	leafLife = 30 * 24 * time.Hour
	renewal  = 24 * time.Hour // before a leaf's end a new one is made
	skew     = 24 * time.Hour
)

// maxLeaves bounds the certificates kept. They are small and made in less than
// a millisecond.
const maxLeaves = 1024

// Authority signs for one sandbox. It may be used concurrently.
type Authority struct {
	root    *x509.Certificate
	rootKey crypto.Signer
	leafKey crypto.Signer // one key for all leaves: all of them are in this process
	sandbox string
	now     func() time.Time

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// New makes an authority for a sandbox, with a clock. Its leaves name the sandbox; its own name is the
// same for all (see Package trust).
func New(sandbox string, now func() time.Time) (*Authority, error) {
	a, err := newAuthority(sandbox, now)
	if err != nil {
		return nil, err
	}
	if a.rootKey, err = makeKey(); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{Organization: []string{trust.Organization}, CommonName: trust.CommonName},
		NotBefore:             now().Add(-skew),
		NotAfter:              now().Add(rootLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // it signs for servers only, not for other authorities
	}
	der, err := a.signCertificate(template, template, a.rootKey.Public())
	if err != nil {
		return nil, err
	}
	a.root, err = x509.ParseCertificate(der)
	return a, err
}

func newAuthority(sandbox string, now func() time.Time) (a *Authority, err error) {
	a = &Authority{sandbox: sandbox, now: now, leaves: map[string]*tls.Certificate{}}
	a.leafKey, err = makeKey()
	return a, err
}

func makeKey() (crypto.Signer, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of a sandbox's authority: %w", err)
	}
	return k, nil
}

// Resume restores an authority that Keep returned: programs that trusted the old one trust the new
// one.
func Resume(sandbox string, now func() time.Time, kept wire.Authority) (*Authority, error) {
	a, err := newAuthority(sandbox, now)
	if err != nil {
		return nil, err
	}
	if a.root, err = x509.ParseCertificate(kept.Certificate); err != nil {
		return nil, fmt.Errorf("read the certificate of a sandbox's authority: %w", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(kept.Key)
	if err != nil { // the error's text may quote it
		return nil, errors.New("the key of a sandbox's authority is corrupted")
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok || !signer.PublicKey.Equal(a.root.PublicKey) {
		return nil, errors.New("the key of a sandbox's authority is not that of its certificate")
	}
	a.rootKey = signer
	return a, nil
}

// Keep returns the authority's certificate and its key.
func (a *Authority) Keep() (wire.Authority, error) {
	key, err := x509.MarshalPKCS8PrivateKey(a.rootKey)
	return wire.Authority{Certificate: a.root.Raw, Key: key}, err
}

// Derive returns a secret of 32 bytes that requires the authority's key. The same authority and
// purpose always give the same secret, so anything made of it is kept with the key.
func (a *Authority) Derive(purpose string) ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(a.rootKey)
	if err != nil {
		return nil, err
	}
	return hkdf.Key(sha256.New, key, nil, purpose, 32)
}

// Certificate returns the authority's own certificate, in PEM, for the inside to trust.
func (a *Authority) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.root.Raw})
}

// Leaf returns a certificate for a name, or an address written as a name. It renews an earlier one
// in time, also when the clock was set. It fails once the authority itself has expired.
func (a *Authority) Leaf(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if c := a.leaves[name]; c != nil && now.After(c.Leaf.NotBefore) && now.Add(renewal).Before(c.Leaf.NotAfter) {
		return c, nil
	}
	if now.Before(a.root.NotBefore) || now.After(a.root.NotAfter) {
		return nil, &Expired{a.root.NotBefore, a.root.NotAfter}
	}
	c, err := a.makeLeaf(name, now)
	if err != nil {
		return nil, fmt.Errorf("sign for %s: %w", name, err)
	}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	a.leaves[name] = c
	return c, nil
}

// Expired reports that an authority is not to be trusted at this time.
type Expired struct{ NotBefore, NotAfter time.Time }

func (e *Expired) Error() string {
	return fmt.Sprintf("the sandbox's certificate authority counts from %s to %s: stop and start the sandbox, which makes a new one",
		e.NotBefore.UTC().Format(time.DateOnly), e.NotAfter.UTC().Format(time.DateOnly))
}

func (a *Authority) makeLeaf(name string, now time.Time) (*tls.Certificate, error) {
	template := &x509.Certificate{
		NotBefore:   now.Add(-skew),
		NotAfter:    earlier(now.Add(leafLife), a.root.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		Subject:     pkix.Name{Organization: []string{trust.Organization}, OrganizationalUnit: []string{a.sandbox}},
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
	} else {
		template.DNSNames = []string{name}
	}
	if len(name) <= 64 { // the limit of a common name
		template.Subject.CommonName = name
	}
	der, err := a.signCertificate(template, a.root, a.leafKey.Public())
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leafKey, Leaf: leaf}, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (a *Authority) signCertificate(template, parent *x509.Certificate, key crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, key, a.rootKey)
}
