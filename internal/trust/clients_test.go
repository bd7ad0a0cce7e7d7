package trust_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/internal/trust/clienttest"
)

// clientTime is how long one program may take on a slow and busy machine.
const clientTime = 2 * time.Minute

// site is a server with a certificate of a sandbox's authority, and the files that make clients trust
// it.
type site struct {
	server string // host and port
	files  string // in place of trust.Dir
}

func newSite(t *testing.T) *site {
	t.Helper()
	a, err := ca.New("demo", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{files: t.TempDir()}
	complete(t, s.files, trust.Find(""), a.Certificate())
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: clienttest.Handler(), ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.Leaf("localhost") }},
	}
	go func() { _ = server.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s.server = net.JoinHostPort("localhost", port)
	return s
}

func complete(t *testing.T, dir string, r trust.Roots, authority []byte) {
	t.Helper()
	f, err := trust.Begin(dir, prepare(t, r), nil)
	if err == nil {
		err = f.Complete(authority)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// prepare writes the prepared parts of the files.
func prepare(t testing.TB, r trust.Roots) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range trust.Prepare(r) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// variables returns the variables for programs inside, or some of them.
func (s *site) variables(only ...string) []string {
	var out []string
	for _, kv := range append(trust.Environment(), trust.JavaOptions) {
		if name, value, _ := strings.Cut(kv, "="); len(only) == 0 || slices.Contains(only, name) {
			out = append(out, name+"="+strings.ReplaceAll(value, trust.Dir, s.files))
		}
	}
	return out
}

// run runs a client. Of its environment, only the given variables tell whom to trust. before is put in
// front of its command line.
func (s *site) run(t *testing.T, c clienttest.Client, variables []string, before ...string) (out string, err error) {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	for name, content := range c.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	uncounted(t, home)
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	defer cancel()
	args := append(before, c.Command(s.server)...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GOPATH=" + home, "GOFLAGS=-modcacherw", "LANG=C.UTF-8", "RUSTUP_HOME=" + rustup()}, variables...)
	b, err := cmd.CombinedOutput()
	return string(b), err
}

// uncounted stops go from leaving a process behind that counts its calls: it would write into home while
// home is being removed.
func uncounted(t *testing.T, home string) {
	t.Helper()
	dir := filepath.Join(home, ".config", "go", "telemetry")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mode"), []byte("off"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rustup is the directory where a cargo from rustup finds the real one.
func rustup() string {
	if dir := os.Getenv("RUSTUP_HOME"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir()
	return filepath.Join(home, ".rustup")
}

// TestClients checks that every client trusts the sandbox's authority with the variables, or with the
// one it needs, and does not without them.
func TestClients(t *testing.T) {
	s := newSite(t)
	for _, c := range clienttest.Clients {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if why := c.Missing(t.Context()); why != "" {
				t.Skip("skipped: " + why)
			}
			if out, err := s.run(t, c, nil); err == nil {
				t.Fatalf("it trusts anybody: %s", out)
			}
			if len(c.Alone) > 0 {
				if out, err := s.run(t, c, s.variables()); err != nil {
					t.Errorf("with all variables: %v: %s", err, out)
				}
			}
			for _, name := range c.Alone {
				if out, err := s.run(t, c, s.variables(name)); err != nil {
					t.Errorf("with %s: %v: %s", name, err, out)
				}
			}
		})
	}
}

// TestClientsOfBundle checks that some clients need no variable if the distribution's bundle is the
// sandbox's.
func TestClientsOfBundle(t *testing.T) {
	s := newSite(t)
	bundle := "/etc/" + trust.Bundles[0]
	script := `mount --bind "$0" ` + bundle + ` && exec "$@"`
	over := []string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, filepath.Join(s.files, filepath.Base(trust.Bundle))}
	if out, err := exec.Command(over[0], append(over[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("skipped: nothing can be mounted over %s: %v: %s", bundle, err, out)
	}
	for _, c := range clienttest.Clients {
		if !c.Bundle {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if why := c.Missing(t.Context()); why != "" {
				t.Skip("skipped: " + why)
			}
			if out, err := s.run(t, c, nil, over...); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
