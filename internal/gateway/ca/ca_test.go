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

	"github.com/bothy-dev/bothy/internal/wire"
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
	a, err := New("demo", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shake makes a TLS connection between a client that trusts a and a server with a's certificate for
// a name.
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
	_ = near.SetDeadline(time.Now().Add(time.Minute))
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

// clock is a clock that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// at makes an authority with its own clock.
func at(t testing.TB) (*Authority, *clock) {
	t.Helper()
	c := &clock{time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC)}
	a, err := New("demo", c.now)
	if err != nil {
		t.Fatal(err)
	}
	return a, c
}

// leaf checks that a client accepts a certificate, by the authority's clock and by one that is
// wrong by a day.
func leaf(t testing.TB, a *Authority, name string) *tls.Certificate {
	t.Helper()
	c, err := a.Leaf(name)
	if err != nil {
		t.Fatal(err)
	}
	end := a.root.NotAfter
	for _, now := range []time.Time{a.now(), a.now().Add(-skew + time.Minute), earlier(a.now().Add(renewal-time.Minute), end)} {
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool(t, a), DNSName: name, CurrentTime: now}); err != nil {
			t.Errorf("on %s: %v", now, err)
		}
	}
	return c
}

func TestCache(t *testing.T) {
	a, _ := at(t)
	first := leaf(t, a, "api.example.com")
	if leaf(t, a, "api.example.com") != first {
		t.Error("made twice")
	}
	for i := range maxLeaves + 10 {
		if _, err := a.Leaf(fmt.Sprintf("n%d.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.leaves) > maxLeaves {
		t.Errorf("%d are kept", len(a.leaves))
	}
}

// TestLeavesAreRenewed checks that a certificate is always valid for a day at least, or to the
// authority's end: a sandbox may run for years.
func TestLeavesAreRenewed(t *testing.T) {
	a, clock := at(t)
	made := map[*tls.Certificate]bool{}
	for clock.at.Before(a.root.NotAfter) {
		made[leaf(t, a, "api.example.com")] = true
		clock.at = clock.at.Add(10 * 24 * time.Hour)
	}
	if years := len(made) / 12; years < 9 || years > 13 {
		t.Errorf("%d certificates were made", len(made))
	}
}

// TestExpired checks that an invalid authority makes no certificate, and that its error names the
// remedy.
func TestExpired(t *testing.T) {
	a, clock := at(t)
	leaf(t, a, "old.example.com")
	for _, to := range []time.Time{a.root.NotAfter.Add(time.Second), a.root.NotAfter.Add(rootLife), a.root.NotBefore.Add(-time.Second), {}} {
		clock.at = to
		for _, name := range []string{"old.example.com", "new.example.com"} {
			if c, err := a.Leaf(name); err == nil || !strings.Contains(err.Error(), "stop and start the sandbox") {
				t.Errorf("at %s: %v, %v", to, c, err)
			}
		}
	}
	clock.at = a.root.NotAfter.Add(-time.Second)
	leaf(t, a, "old.example.com")
}

// TestClockSetBack checks that a clock that is set back leaves no certificates that are valid from
// tomorrow.
func TestClockSetBack(t *testing.T) {
	a, clock := at(t)
	clock.at = clock.at.Add(20 * 24 * time.Hour)
	first := leaf(t, a, "api.example.com")
	clock.at = clock.at.Add(-20 * 24 * time.Hour)
	if leaf(t, a, "api.example.com") == first {
		t.Error("it is still given out")
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

// TestResume checks that programs that trust an authority trust its replacement.
func TestResume(t *testing.T) {
	a, other := authority(t), authority(t)
	kept, err := a.Keep()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Resume("demo", time.Now, kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := shake(t, b, pool(t, a), "api.example.com", "api.example.com"); err != nil {
		t.Error(err)
	}
	if string(a.Certificate()) != string(b.Certificate()) {
		t.Error("its certificate is another")
	}
	strange, err := other.Keep()
	if err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]wire.Authority{
		"nothing":             {},
		"no key":              {Certificate: kept.Certificate},
		"another's key":       {Certificate: kept.Certificate, Key: strange.Key},
		"half a key":          {Certificate: kept.Certificate, Key: kept.Key[:len(kept.Key)/2]},
		"half a certificate":  {Certificate: kept.Certificate[:9], Key: kept.Key},
		"another certificate": {Certificate: strange.Certificate, Key: kept.Key},
	} {
		if _, err := Resume("demo", time.Now, wrong); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
