package hostroot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/trust"
)

func authority(t testing.TB) string {
	t.Helper()
	a, err := ca.New("demo", time.Now)
	must(t, err)
	return string(a.Certificate())
}

// TestTrust checks that the sandbox finds the host's authorities and its own in the bundle,
// wherever a distribution keeps it.
func TestTrust(t *testing.T) {
	public := authority(t) // any certificate will do
	const debian = "/etc/ssl/certs/ca-certificates.crt"
	const fedora = "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"
	tests := []struct {
		name    string
		host    func(s source)
		bundles []string // of /etc
		links   []string // to the sandbox's own authority
		gap     bool
	}{
		{
			"debian", func(s source) {
				put(t, s, debian, "# words\n"+public, 0o644)
				put(t, s, "/etc/ca-certificates/update.d/jks-keystore", "#!/bin/sh\n", 0o755)
			},
			[]string{debian},
			[]string{"ssl/certs/bothy.pem"},
			false,
		},
		{
			"fedora", func(s source) {
				put(t, s, fedora, public, 0o644)
				put(t, s, "/etc/pki/ca-trust/source/anchors/corp.pem", public, 0o644)
				symlink(t, s, "../pki/tls/certs", "/etc/ssl/certs")
				symlink(t, s, fedora, "/etc/pki/tls/certs/ca-bundle.crt")
				symlink(t, s, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/tls/cert.pem")
			},
			[]string{fedora},
			[]string{"pki/ca-trust/source/anchors/bothy.pem"},
			false,
		},
		{
			"opensuse", func(s source) {
				put(t, s, "/var/lib/ca-certificates/ca-bundle.pem", public, 0o644)
				symlink(t, s, "../../var/lib/ca-certificates/ca-bundle.pem", "/etc/ssl/ca-bundle.pem")
				symlink(t, s, "/var/lib/ca-certificates/pem", "/etc/ssl/certs")
			},
			[]string{"/etc/ssl/ca-bundle.pem", debian},
			[]string{"ssl/certs/bothy.pem"},
			false,
		},
		{
			"alpine", func(s source) {
				put(t, s, debian, public, 0o644)
				symlink(t, s, "certs/ca-certificates.crt", "/etc/ssl/cert.pem")
			},
			[]string{debian, "/etc/ssl/cert.pem"},
			[]string{"ssl/certs/bothy.pem"},
			false,
		},
		{"nothing", func(source) {}, []string{debian}, []string{"ssl/certs/bothy.pem"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := fakeHost(t)
			tt.host(s)
			dir, h := assemble(t, s, Options{})
			own := authority(t)
			must(t, h.Trust([]byte(own), []byte("@cert-authority * key\n")))
			if got := read(t, dir+trust.KnownHosts); got != "@cert-authority * key\n" {
				t.Errorf("ssh knows %q", got)
			}
			want := public + own
			if tt.gap {
				want = own
			}
			if got := read(t, dir+trust.Bundle); got != want {
				t.Errorf("trusted are\n%s\nwant\n%s", got, want)
			}
			for _, b := range tt.bundles {
				if got := read(t, dir+b); got != want {
					t.Errorf("in %s trusted are\n%s\nwant\n%s", b, got, want)
				}
			}
			for _, l := range tt.links {
				if got, err := os.Readlink(filepath.Join(dir, "etc", l)); got != trust.Own {
					t.Errorf("%s leads to %q: %v", l, got, err)
				}
			}
			if got := read(t, dir+"/etc/"+hookDir+"/"+hookName); got != TrustHook {
				t.Errorf("the hook is %q", got)
			}
			if gaps := strings.Join(h.Gaps(), "\n"); strings.Contains(gaps, "certificate authority") != tt.gap {
				t.Errorf("gaps: %s", gaps)
			}
		})
	}
}

// TestKnownHosts checks that ssh finds the keys that vouch for servers if the host has ssh, but does not
// have its own file.
func TestKnownHosts(t *testing.T) {
	for want, host := range map[string]func(source){
		trust.KnownHosts: func(s source) { put(t, s, "/etc/ssh/ssh_config", "", 0o644) },
		"own":            func(s source) { put(t, s, "/etc/ssh/"+KnownHosts, "mine", 0o644) },
		"none":           func(source) {},
	} {
		s := fakeHost(t)
		host(s)
		dir, h := assemble(t, s, Options{})
		must(t, h.Trust([]byte(authority(t)), nil))
		got, err := os.Readlink(filepath.Join(dir, "etc/ssh", KnownHosts))
		if want == trust.KnownHosts && got != want || want != trust.KnownHosts && err == nil {
			t.Errorf("%s: %q, %v", want, got, err)
		}
	}
}

// TestChangedBundle checks that a changed bundle outside /etc outdates a copy of /etc, too.
func TestChangedBundle(t *testing.T) {
	s, cache := fakeHost(t), newCache(t)
	bundle := "/var/lib/ca-certificates/ca-bundle.pem"
	first, second := authority(t), authority(t)
	put(t, s, bundle, first, 0o644)
	symlink(t, s, "../../var/lib/ca-certificates/ca-bundle.pem", "/etc/ssl/ca-bundle.pem")
	prepared := func() string {
		h := prepare(t, s, cache)
		return read(t, filepath.Join(h.snapshotDir(), preparedDir, filepath.Base(trust.Bundle)))
	}
	if got := prepared(); got != first {
		t.Errorf("at first: %s", got)
	}
	put(t, s, bundle, second+first, 0o644)
	if got := prepared(); got != second+first {
		t.Errorf("after a change: %s", got)
	}
}
