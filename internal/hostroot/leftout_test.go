package hostroot

import (
	"path"
	"strings"
	"testing"
)

func TestOmit(t *testing.T) {
	tests := map[string]bool{
		"passwd": true, "passwd-": true, "shadow": true, "gshadow-": true, "sudoers.d": true, "ssl/private": true, "ssl/PRIVATE": true,
		"x/y/server.key": true, "x/my-private.pem": true, "x/.git": true, "ssh/ssh_host_rsa_key.pub": true, "KRB5.KEYTAB": true,
		"machine-id": true, "resolv.conf": true, "hosts": true, "netplan": true, "docker": true, "wgetrc~": true,

		"ssh/ssh_config": false, "ssl/certs": false, "ssl/certs/ca-certificates.crt": false, "ssl/openssl.cnf": false, "networks": false,
		"pam.d/common-password": false, "pam.d/passwd": false, "alternatives": false, "ld.so.cache": false, "host.conf": false,
		"apt/sources.list": false, "apt/keyrings": false, "skel/.bashrc": false, "bash.bashrc": false, "localtime": false,
		"bash_completion.d/docker": false, "profile.d": false, "keyboard": false, "default/locale": false, "environment-modules": false,
		"init.d/docker": false, "services": false, "security/limits.conf": false, "claude-code": false, "debian_version": false,
	}
	r := leftOut()
	for name, want := range tests {
		dir := strings.TrimSuffix(path.Dir(name), ".")
		if got := r.omits(r.forDir(dir), path.Base(name)); got != want {
			t.Errorf("omit %s: %v", name, got)
		}
	}
}

func TestLeftOutNamesHaveReasons(t *testing.T) {
	for _, g := range leftOutNames {
		if g.why == "" || g.patterns == "" {
			t.Errorf("%q: %q", g.why, g.patterns)
		}
		for p := range strings.FieldsSeq(g.patterns) {
			if dir := path.Dir(strings.TrimPrefix(p, "**/")); strings.Contains(dir, "*") || path.Clean(p) != p {
				t.Errorf("pattern %s: only the last element may hold a star", p)
			}
		}
	}
}

func TestMatchGlob(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"a*", "a", true},
		{"a*", "ab", true},
		{"a*", "ba", false},
		{"*.key", ".key", true},
		{"*.key", "x.key", true},
		{"*.key", "x.keys", false},
		{"*private*.pem", "private.pem", true},
		{"*private*.pem", "aprivateb.pem", true},
		{"*private*.pem", "private.pe", false},
		{"*a*a*", "aa", true},
		{"*a*a*", "a", false},
		{"a*a", "a", false},
		{"a*b*c", "axbxc", true},
		{"a*b*c", "acb", false},
	}
	for _, tt := range tests {
		if got := matchGlob(strings.Split(tt.pattern, "*"), tt.name); got != tt.want {
			t.Errorf("%s and %s: %v", tt.pattern, tt.name, got)
		}
	}
}

func TestSecretInside(t *testing.T) {
	tests := map[string]bool{
		"-----BEGIN OPENSSH PRIVATE KEY-----":         true,
		"http://user:pass@proxy:3128/":                true,
		"proxy=http://u:p@h":                          true,
		"a ://b c://d e://u:p@f":                      true,
		"_auth=x\n":                                   false,
		"registry=x\n_auth=x\n":                       true,
		"token ghp_0123456789abcdefABCD":              true,
		"-----BEGIN CERTIFICATE-----":                 false,
		"-----BEGIN PUBLIC KEY-----":                  false,
		"http://user@host/ http://host:80/a@b":        false,
		"http://host:80/ user@host":                   false,
		"http://h/?a=b:c@d":                           false,
		"git@github.com:user/repo":                    false,
		"ghp_short xghp_0123456789abcdefABCD":         false,
		"npm_config_registry=x npm_lifecycle_event=y": false,
		"": false, "://": false, "x://": false, "://:@": false, "://a:@b": false,
	}
	for content, want := range tests {
		if got := secretInside([]byte(content)); got != want {
			t.Errorf("%q: %v", content, got)
		}
	}
}

func FuzzSecretInside(f *testing.F) {
	f.Add([]byte("http://user:pass@proxy:3128/ ghp_0123456789abcdefABCD"))
	f.Fuzz(func(t *testing.T, b []byte) { secretInside(b) })
}
