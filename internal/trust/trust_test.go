package trust_test

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // what OpenSSL uses for names
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/trust"
)

// TestHash computes OpenSSL's hash of the subject: SHA-1 over its parts, as lower-case UTF-8 strings.
func TestHash(t *testing.T) {
	name := pkix.Name{Organization: []string{trust.Organization}, CommonName: trust.CommonName}
	var canonical bytes.Buffer
	for _, rdn := range name.ToRDNSequence() {
		for i := range rdn {
			text := strings.ToLower(rdn[i].Value.(string))
			rdn[i].Value = asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte(text)}
		}
		der, err := asn1.Marshal(rdn)
		if err != nil {
			t.Fatal(err)
		}
		canonical.Write(der)
	}
	sum := sha1.Sum(canonical.Bytes()) //nolint:gosec // see above
	if got := fmt.Sprintf("%08x", binary.LittleEndian.Uint32(sum[:])); got != trust.Hash {
		t.Errorf("the hash is %s, not %s", got, trust.Hash)
	}
}

// authority makes a certificate as the gateway does.
func authority(t *testing.T) string {
	t.Helper()
	a, err := ca.New("demo", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return string(a.Certificate())
}

// other makes something that looks like another authority's certificate.
func other(name string) string {
	der := append([]byte{0x30, byte(len(name) + 20)}, bytes.Repeat([]byte{1}, 20)...)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: append(der, name...)}))
}

// host makes a tree with a bundle.
func host(t *testing.T, name, bundle string, mode os.FileMode) string {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, "etc", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(bundle), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return root
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestBundle checks that the bundle has the host's authorities and the sandbox's own, and nothing else
// from the host's file.
func TestBundle(t *testing.T) {
	own, one, two := authority(t), other("one"), other("two")
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("CANARY")}))
	broken := "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n"
	text := "# CANARY\n" + one + key + broken + strings.TrimSuffix(two, "\n")
	for _, name := range trust.Bundles {
		dir := t.TempDir()
		complete(t, dir, trust.Find(host(t, name, text, 0o644)), []byte(own))
		if got := read(t, dir, "bundle.pem"); got != one+two+own {
			t.Errorf("from %s: %s", name, got)
		}
		if got := read(t, dir, "bothy.pem"); got != own {
			t.Errorf("the sandbox's own: %s", got)
		}
	}
	for what, root := range map[string]string{
		"is closed":    host(t, trust.Bundles[0], text, 0o640),
		"is empty":     host(t, trust.Bundles[0], "", 0o644),
		"is no bundle": host(t, trust.Bundles[0]+"/x", text, 0o644),
		"is missing":   t.TempDir(),
	} {
		dir := t.TempDir()
		r := trust.Find(root)
		complete(t, dir, r, []byte(own))
		if got := read(t, dir, "bundle.pem"); !r.Empty() || got != own {
			t.Errorf("when it %s: %s", what, got)
		}
	}
}

// TestNoAuthority checks that nothing starts without an authority.
func TestNoAuthority(t *testing.T) {
	for _, text := range []string{"", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		f, err := trust.Begin(t.TempDir(), prepare(t, trust.Roots{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Complete([]byte(text)) == nil {
			t.Errorf("%q passes for an authority", text)
		}
	}
	dir := t.TempDir()
	complete(t, dir, trust.Roots{}, []byte(authority(t)))
	if _, err := trust.Begin(dir, prepare(t, trust.Roots{}), nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("in the files of another start: %v", err)
	}
}

// TestJava checks that Java's own tool reads the store and accepts its digest.
func TestJava(t *testing.T) {
	if _, err := exec.LookPath("keytool"); err != nil {
		t.Skip("skipped: keytool is not installed")
	}
	dir, r := t.TempDir(), trust.Find("")
	complete(t, dir, r, []byte(authority(t)))
	out, err := exec.Command("keytool", "-J-Duser.language=en", "-list", "-keystore", filepath.Join(dir, "cacerts"), "-storepass", "changeit").CombinedOutput()
	n := strings.Count(read(t, dir, "bundle.pem"), "BEGIN CERTIFICATE")
	if err != nil || !strings.Contains(string(out), "contains "+strconv.Itoa(n)+" entr") || !strings.Contains(string(out), "bothy, ") {
		t.Errorf("of %d certificates: %v: %s", n, err, out)
	}
}

// TestRenew checks that Renew leaves only this start's authority, and everything else unchanged.
func TestRenew(t *testing.T) {
	old, older, now := authority(t), authority(t), authority(t)
	one, two := other("one"), other("two")
	for _, tt := range []struct{ bundle, want string }{
		{"", now},
		{one, one + now},
		{one + old, one + now},
		{old + one + older + two, one + two + now},
		{one + now, one + now},
		{"# words\n" + one + "\n" + old + "# more\n" + two, "# words\n" + one + "\n# more\n" + two + now},
		{strings.TrimSuffix(one, "\n"), one + now},
		{one + "-----BEGIN CERTIFICATE-----\ncut", one + "-----BEGIN CERTIFICATE-----\ncut\n" + now},
	} {
		got := trust.Renew([]byte(tt.bundle), []byte(now))
		if string(got) != tt.want {
			t.Errorf("%s\nbecame\n%s", tt.bundle, got)
		}
		if again := trust.Renew(got, []byte(now)); !bytes.Equal(again, got) {
			t.Errorf("a second time\n%s\nbecame\n%s", got, again)
		}
	}
}

// TestEnvironment checks that every file that the variables name exists.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	complete(t, dir, trust.Roots{}, []byte(authority(t)))
	for _, kv := range append(trust.Environment(), trust.JavaOptions) {
		_, value, _ := strings.Cut(kv, "=")
		name := value[strings.Index(value, trust.Dir)+len(trust.Dir):]
		if read(t, dir, name) == "" {
			t.Errorf("%s: the file is empty", kv)
		}
	}
}

func BenchmarkFiles(b *testing.B) {
	a, err := ca.New("demo", time.Now)
	if err != nil {
		b.Fatal(err)
	}
	own, dir, prepared := a.Certificate(), b.TempDir(), prepare(b, trust.Find(""))
	for b.Loop() {
		f, err := trust.Begin(dir, prepared, nil)
		if err == nil {
			err = f.Complete(own)
		}
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{trust.Bundle, trust.Own, trust.Java} {
			_ = os.Remove(filepath.Join(dir, filepath.Base(name)))
		}
	}
}

// TestLocal checks that authorities which only this host trusts are in the files of a start,
// each once, and that the key store counts them.
func TestLocal(t *testing.T) {
	public, company, more := other("public"), other("company"), other("more")
	root := host(t, trust.Bundles[0], public+company, 0o644)
	anchors := filepath.Join(root, "usr/local/share/ca-certificates")
	if err := os.MkdirAll(anchors, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"company.crt": company, "notes.txt": other("no")} {
		if err := os.WriteFile(filepath.Join(anchors, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	named := trust.Beyond(root, []byte(public+more))
	if string(named) != more {
		t.Errorf("beyond the bundle is %q", named)
	}
	local := trust.Local(root, named)
	dir, own := t.TempDir(), authority(t)
	f, err := trust.Begin(dir, prepare(t, trust.Find(root)), local)
	if err == nil {
		err = f.Complete([]byte(own))
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bundle.pem": public + company + more + own, "extra.pem": more + company + own, "bothy.pem": own} {
		if got := read(t, dir, name); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	store := []byte(read(t, dir, "cacerts"))
	if n := binary.BigEndian.Uint32(store[8:]); n != 4 {
		t.Errorf("the key store says that it has %d entries", n)
	}
	if out, err := exec.Command("keytool", "-list", "-keystore", filepath.Join(dir, "cacerts"), "-storepass", "changeit").CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		t.Log("no keytool here")
	} else if strings.Contains(string(out), "tampered") || strings.Contains(string(out), "password was incorrect") {
		t.Errorf("keytool: %s", out)
	}
}
