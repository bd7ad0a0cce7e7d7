package ca

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func pool(t testing.TB, a *Authority) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(a.Certificate()) {
		t.Fatal("its certificate cannot be read")
	}
	return p
}

func authority(t testing.TB) *Authority {
	t.Helper()
	a, err := New("demo")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shake makes a TLS connection between a client that trusts a and a server with
// its certificate for a name.
func shake(t testing.TB, a *Authority, roots *x509.CertPool, certified, wanted string) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	go func() {
		far, err := l.Accept()
		if err != nil {
			return
		}
		defer far.Close()
		s := tls.Server(far, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.Leaf(certified) }})
		if s.Handshake() == nil {
			_, _ = io.WriteString(s, "hello")
		}
	}()
	c := tls.Client(near, &tls.Config{RootCAs: roots, ServerName: wanted})
	_ = near.SetDeadline(time.Now().Add(10 * time.Second))
	return c.Handshake()
}

func TestTrust(t *testing.T) {
	a, other := authority(t), authority(t)
	long := strings.Repeat("very-long-label.", 8) + "example.com"
	for _, name := range []string{"api.example.com", "192.0.2.7", "2001:db8::7", long} {
		if err := shake(t, a, pool(t, a), name, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := shake(t, a, pool(t, a), "api.example.com", "www.example.com"); err == nil {
		t.Error("a certificate for one name passes for another")
	}
	if err := shake(t, a, pool(t, other), "api.example.com", "api.example.com"); err == nil {
		t.Error("one sandbox's authority counts in another")
	}
}

func TestOnlyServers(t *testing.T) {
	a := authority(t)
	leaf, err := a.Leaf("api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if leaf.Leaf.IsCA || !a.root.MaxPathLenZero || a.root.MaxPathLen != 0 {
		t.Error("a leaf could sign")
	}
	_, err = leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool(t, a), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err == nil {
		t.Error("a leaf passes for a client")
	}
}

func TestCache(t *testing.T) {
	now := time.Now()
	a, err := newAt("demo", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	leaf := func() *tls.Certificate {
		c, err := a.Leaf("api.example.com")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := leaf()
	if leaf() != first {
		t.Error("made twice")
	}
	now = now.Add(leafLife - renewal + time.Minute)
	second := leaf()
	if second == first || !second.Leaf.NotAfter.After(now.Add(renewal)) {
		t.Error("not renewed before its end")
	}
	for i := range maxLeaves + 10 {
		if _, err := a.Leaf(fmt.Sprintf("n%d.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.leaves) > maxLeaves {
		t.Errorf("%d are kept", len(a.leaves))
	}
	now = now.Add(rootLife)
	if _, err := a.Leaf("new.example.com"); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after the authority's end: %v", err)
	}
}

func BenchmarkLeaf(b *testing.B) {
	a := authority(b)
	for b.Loop() {
		if _, err := a.makeLeaf("api.example.com", time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
