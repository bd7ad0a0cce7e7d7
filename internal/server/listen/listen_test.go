package listen

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newState(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return s
}

// TestTCP checks that only addresses of the loopback are served without TLS.
func TestTCP(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "127.0.0.1", "nowhere", "127.0.0.1:99999", ""} {
		s, err := TCP(address, Options{})
		if !errors.Is(err, spec.ErrUsage) || spec.Hint(err) == "" {
			t.Errorf("%s: %v", address, err)
		}
		if s != nil {
			s.Close()
		}
	}
	s, err := TCP("127.0.0.1:0", Options{})
	must(t, err)
	defer s.Close()
	if s.TLS || s.Local || len(s.Hosts) != 3 {
		t.Errorf("%+v", s.Site)
	}
}

// TestCertificate checks that a state directory makes one certificate, that its fingerprint is the one that
// clients see, and that a wrong one is refused.
func TestCertificate(t *testing.T) {
	s := newState(t)
	made, err := Made(s)
	must(t, err)
	again, err := Made(s)
	must(t, err)
	if made.Fingerprint != again.Fingerprint || len(made.Fingerprint) != 64 {
		t.Errorf("%s, %s", made.Fingerprint, again.Fingerprint)
	}
	socket, err := TCP("0.0.0.0:0", Options{Certificate: made, Hosts: []string{"build.example"}})
	must(t, err)
	defer socket.Close()
	go func() {
		if c, err := socket.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(socket.Addr().String())
	must(t, err)
	c, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true})
	must(t, err)
	defer c.Close()
	sum := sha256.Sum256(c.ConnectionState().PeerCertificates[0].Raw)
	if hex.EncodeToString(sum[:]) != made.Fingerprint {
		t.Error("another fingerprint")
	}
	if _, err := Given([]byte("x"), []byte("y")); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("%v", err)
	}
	must(t, store.WriteFile(filepath.Join(s.API(), "tls.pem"), []byte("broken")))
	if _, err := Made(s); err == nil || spec.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}

// TestLimit checks that a connection beyond the limit is told so, and that a closed one makes room.
func TestLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := Limit(inner, 1)
	defer l.Close()
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		must(t, err)
		return c
	}
	first := dial()
	defer first.Close()
	held := <-accepted
	second := dial()
	defer second.Close()
	resp, err := http.ReadResponse(bufio.NewReader(second), nil)
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%d", resp.StatusCode)
	}
	held.Close()
	held.Close()
	third := dial()
	defer third.Close()
	(<-accepted).Close()
}

// TestServers checks that so many servers have names of their own, and the next is refused.
func TestServers(t *testing.T) {
	s := newState(t)
	seen := map[string]bool{}
	for range maxSockets {
		socket, err := Default(s)
		must(t, err)
		defer socket.Release()
		defer socket.Close()
		seen[socket.URL] = true
	}
	if _, err := Default(s); !errors.Is(err, spec.ErrConflict) || len(seen) != maxSockets {
		t.Errorf("%v %v", err, seen)
	}
}
