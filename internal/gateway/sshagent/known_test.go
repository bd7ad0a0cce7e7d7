package sshagent

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, s := newKey(t)
	return s
}

func written(key ssh.PublicKey) string {
	return key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
}

// knows reads a file of these lines.
func knows(t *testing.T, lines ...string) (*Known, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "known_hosts")
	must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	k, err := ReadKnown([]string{path})
	return k, path, err
}

// TestHosts checks which servers a line is about, as ssh-keygen finds them, too.
func TestHosts(t *testing.T) {
	key := newSigner(t).PublicKey()
	keygen, _ := exec.LookPath("ssh-keygen")
	for hosts, tt := range map[string]struct{ is, isNot []string }{
		"git.example.com":         {[]string{"git.example.com:22", "GIT.example.com:22"}, []string{"git.example.com:2222", "agit.example.com:22", "git.example.com.:22", "xgit.example.com:22"}},
		"Git.Example.com":         {[]string{"git.example.com:22"}, nil},
		"[git.example.com]:2222":  {[]string{"git.example.com:2222"}, []string{"git.example.com:22", "git.example.com:222"}},
		"git.example.com:2222":    {nil, []string{"git.example.com:2222", "git.example.com:22"}},
		"a.example,git.example":   {[]string{"a.example:22", "git.example:22"}, []string{"b.example:22"}},
		"*.example.com":           {[]string{"git.example.com:22", "a.b.example.com:22"}, []string{"example.com:22", "git.example.com:2222"}},
		"[*.example.com]:2222":    {[]string{"git.example.com:2222"}, []string{"git.example.com:22"}},
		"[*.example.com]:*":       {[]string{"git.example.com:2222"}, []string{"git.example.com:22"}},
		"*":                       {[]string{"git.example.com:22", "git.example.com:2222", "[::1]:22"}, nil},
		"g?t.example.com":         {[]string{"git.example.com:22"}, []string{"gt.example.com:22", "giit.example.com:22"}},
		"*,!git.example.com":      {[]string{"a.example.com:22", "git.example.com:2222"}, []string{"git.example.com:22"}},
		"!git.example.com":        {nil, []string{"git.example.com:22", "a.example.com:22"}},
		"[git.example]:2222,!*":   {nil, []string{"git.example:2222"}},
		"[*]:2222,!*bad*":         {[]string{"git.example:2222"}, []string{"a.bad.example:2222"}},
		"::1":                     {[]string{"[::1]:22"}, []string{"[::1]:2222", "[::2]:22"}},
		"[::1]:2222":              {[]string{"[::1]:2222"}, []string{"[::1]:22"}},
		"192.0.2.1":               {[]string{"192.0.2.1:22"}, []string{"192.0.2.11:22"}},
		"a*b*c*d*e*f*g*h*i*j*k*l": {nil, []string{strings.Repeat("abcdefghij", 20) + ":22"}},
		knownhosts.HashHostname("git.example.com"):        {[]string{"git.example.com:22"}, []string{"git.example.com:2222", "a.example.com:22"}},
		knownhosts.HashHostname("[git.example.com]:2222"): {[]string{"git.example.com:2222"}, []string{"git.example.com:22"}},
		knownhosts.HashHostname("::1"):                    {[]string{"[::1]:22"}, []string{"[::1]:2222"}},
	} {
		k, path, err := knows(t, hosts+" "+written(key))
		if err != nil {
			t.Errorf("%s: %v", hosts, err)
			continue
		}
		for _, at := range append(slices.Clone(tt.is), tt.isNot...) {
			want := slices.Contains(tt.is, at)
			if err := k.Check(at, key); (err == nil) != want || (len(k.Algorithms(at)) > 0) != want {
				t.Errorf("%s: %s: %v, %v", hosts, at, err, k.Algorithms(at))
			}
			if name, err := nameOf(at); keygen != "" && err == nil {
				if out, _ := exec.Command(keygen, "-F", name, "-f", path).Output(); (len(out) > 0) != want {
					t.Errorf("%s: %s: ssh-keygen says %q", hosts, name, out)
				}
			}
		}
	}
}

// TestOddLines checks that unreadable lines are skipped, unless they may revoke a key.
func TestOddLines(t *testing.T) {
	key, other := newSigner(t).PublicKey(), newSigner(t).PublicKey()
	const at = "git.example.com:22"
	good := "git.example.com " + written(key)
	for line, want := range map[string]string{
		"":                                                       "",
		"# @revoked * " + written(key):                           "",
		"[git.example.com] " + written(key):                      "",
		"[::1] " + written(other):                                "",
		"a,!,b " + written(other):                                "",
		"|1|abc|def " + written(other):                           "",
		"|2|abc|def " + written(other):                           "",
		"git.example.com " + written(other):                      "", // it has several
		"git.example.com ssh-rsa AAAA":                           "",
		"git.example.com":                                        "",
		"\tgit.example.com\t" + written(key):                     "",
		"@revoked other.example " + written(key):                 "it is revoked",
		"@revoked * " + written(other):                           "",
		"@revoked * ssh-new AAAA":                                "line 2, with @revoked",
		"@revoked ! " + written(key):                             "line 2, with @revoked",
		"@cert-authority * ssh-new AAAA":                         "line 2, with @cert-authority",
		"@cert-authority @revoked * " + written(key):             "line 2, with @cert-authority",
		"@strange * " + written(key):                             "a mark that is not known",
		"@Revoked * " + written(key):                             "a mark that is not known",
		"@cert-authority git.example.com " + written(other):      "",
		"@cert-authority git.example.com,!* " + written(other):   "",
		"git.example.com " + written(key) + " and of it is much": "",
	} {
		k, _, err := knows(t, good, line)
		if err == nil {
			err = k.Check(at, key)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, _, err := knows(t, "# nobody", "@revoked * "+written(key)); err == nil {
		t.Error("nobody is known, and that is fine")
	}
}

// TestAuthorities checks that an authority's key does not serve as a host key, and certifies
// nothing once it is revoked.
func TestAuthorities(t *testing.T) {
	by, stranger, host := newSigner(t), newSigner(t), newSigner(t)
	const at = "git.example.com:2222"
	cert := func(by ssh.Signer, names ...string) ssh.PublicKey {
		c := &ssh.Certificate{Key: host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: names, ValidBefore: uint64(time.Now().Add(time.Hour).Unix())}
		must(t, c.SignCert(rand.Reader, by))
		return c
	}
	line := "@cert-authority [*.example.com]:2222 " + written(by.PublicKey())
	for what, tt := range map[string]struct {
		lines []string
		key   ssh.PublicKey
		fine  bool
	}{
		"a certificate":              {[]string{line}, cert(by, "git.example.com"), true},
		"of a stranger":              {[]string{line}, cert(stranger, "git.example.com"), false},
		"for another name":           {[]string{line}, cert(by, "other.example.com"), false},
		"at another port":            {[]string{"@cert-authority *.example.com " + written(by.PublicKey())}, cert(by, "git.example.com"), false},
		"the authority's own key":    {[]string{line}, by.PublicKey(), false},
		"the key without":            {[]string{line}, host.PublicKey(), false},
		"a key that vouches not":     {[]string{"[git.example.com]:2222 " + written(by.PublicKey())}, cert(by, "git.example.com"), false},
		"the authority is revoked":   {[]string{line, "@revoked * " + written(by.PublicKey())}, cert(by, "git.example.com"), false},
		"the server's is revoked":    {[]string{line, "@revoked * " + written(host.PublicKey())}, cert(by, "git.example.com"), false},
		"another one is revoked":     {[]string{line, "@revoked * " + written(stranger.PublicKey())}, cert(by, "git.example.com"), true},
		"the key beside, of its own": {[]string{line, "[git.example.com]:2222 " + written(host.PublicKey())}, host.PublicKey(), true},
	} {
		k, _, err := knows(t, tt.lines...)
		must(t, err)
		if err := k.Check(at, tt.key); (err == nil) != tt.fine {
			t.Errorf("%s: %v", what, err)
		}
	}
	k, _, err := knows(t, line, "[git.example.com]:2222 "+written(host.PublicKey()))
	must(t, err)
	if list := k.Algorithms(at); list[0] != ssh.KeyAlgoED25519 || !slices.Contains(list, ssh.CertAlgoED25519v01) {
		t.Errorf("it is asked for %v", list)
	}
}
