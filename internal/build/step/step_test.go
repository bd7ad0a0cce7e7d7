package step

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"hash/crc32"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/buildkit/solver/pb"
	copy "github.com/tonistiigi/fsutil/copy"

	"github.com/bothy-dev/bothy/internal/trust"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree makes files and links in a new directory.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "usr/lib/deep"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "usr/lib/deep/f"), []byte("f"), 0o640))
	must(t, os.Link(filepath.Join(dir, "usr/lib/deep/f"), filepath.Join(dir, "usr/lib/deep/g")))
	must(t, os.Symlink("usr/lib", filepath.Join(dir, "lib")))
	must(t, os.Symlink("/lib/deep", filepath.Join(dir, "abs")))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	must(t, os.Mkdir(filepath.Join(dir, "locked"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "locked/h"), []byte("h"), 0o600))
	must(t, os.Chmod(filepath.Join(dir, "locked"), 0o555))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "locked"), 0o755) })
	return dir
}

// passed packs files, unpacks them elsewhere, and returns that directory.
func passed(t *testing.T, from string, pack func(*packer) error) string {
	t.Helper()
	var archive bytes.Buffer
	p := newPacker(&archive, from)
	must(t, pack(p))
	must(t, p.close())
	to := t.TempDir()
	must(t, unpack(&archive, to))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "locked"), 0o755) })
	return to
}

func TestPass(t *testing.T) {
	to := passed(t, tree(t), func(p *packer) error { return p.packTree("/") })
	a, err := os.Stat(filepath.Join(to, "usr/lib/deep/f"))
	must(t, err)
	b, err := os.Stat(filepath.Join(to, "usr/lib/deep/g"))
	must(t, err)
	if !os.SameFile(a, b) || a.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", a, b)
	}
	if d, err := os.Stat(filepath.Join(to, "locked")); err != nil || d.Mode().Perm() != 0o555 {
		t.Errorf("%v, %v", d, err)
	}
	if l, err := os.Readlink(filepath.Join(to, "abs")); err != nil || l != "/lib/deep" {
		t.Errorf("%q, %v", l, err)
	}
}

// TestFollowed checks that a path is packed with the links on the way, and nothing else.
func TestFollowed(t *testing.T) {
	from := tree(t)
	to := passed(t, from, func(p *packer) error { return p.packCopied(&pb.FileActionCopy{Src: "/abs/f", FollowSymlink: true}) })
	if b, err := os.ReadFile(filepath.Join(to, "usr/lib/deep/f")); err != nil || string(b) != "f" {
		t.Errorf("%q, %v", b, err)
	}
	for _, name := range []string{"abs", "lib"} {
		if _, err := os.Readlink(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(to, "locked")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	to = passed(t, from, func(p *packer) error {
		return p.packCopied(&pb.FileActionCopy{Src: "/lib/*/[fx]", AllowWildcard: true, FollowSymlink: true})
	})
	if _, err := os.Lstat(filepath.Join(to, "usr/lib/deep/f")); err != nil {
		t.Error(err)
	}
	if err := newPacker(io.Discard, from).packPath("/loop"); err == nil {
		t.Error("a link to itself leads somewhere")
	}
	if err := newPacker(io.Discard, from).packPath("/nothing/at/all"); err != nil {
		t.Error(err)
	}
}

// TestTrust checks that links to the sandbox's authorities become a file for the image,
// without the sandbox's own authority. A file of the image replaces such a link.
func TestTrust(t *testing.T) {
	authority := certificate(t, trust.CommonName)
	public := certificate(t, "public")
	from := t.TempDir()
	for name, text := range map[string]string{
		trust.Bundle: public + authority, trust.Own: authority, "/etc/ssl/ca-bundle.pem": authority + public, "/etc/ssl/other.pem": authority,
	} {
		must(t, os.MkdirAll(filepath.Join(from, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(from, name), []byte(text), 0o644))
	}
	certs := filepath.Join(from, "etc/ssl/certs")
	must(t, os.MkdirAll(certs, 0o755))
	must(t, os.Symlink(trust.Bundle, filepath.Join(certs, "ca-certificates.crt")))
	must(t, os.Symlink(trust.Own, filepath.Join(certs, "bothy.pem")))
	must(t, os.Symlink("bothy.pem", filepath.Join(certs, trust.Hash+".0")))
	must(t, os.Symlink(trust.KnownHosts, filepath.Join(certs, "ssh_known_hosts2")))
	must(t, os.Symlink("certs/ca-certificates.crt", filepath.Join(from, "etc/ssl/cert.pem")))
	for _, src := range []string{"/etc/ssl", "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem"} {
		to := passed(t, from, func(p *packer) error {
			p.image = true
			return p.packCopied(&pb.FileActionCopy{Src: src, FollowSymlink: true})
		})
		info, err := os.Lstat(filepath.Join(to, "etc/ssl/certs/ca-certificates.crt"))
		must(t, err)
		b, err := os.ReadFile(filepath.Join(to, "etc/ssl/certs/ca-certificates.crt"))
		if err != nil || string(b) != public || info.Mode() != 0o644 {
			t.Errorf("%s: %q, %v, %v", src, b, info.Mode(), err)
		}
		if src != "/etc/ssl" {
			continue
		}
		for name, want := range map[string]string{"ca-bundle.pem": public, "other.pem": authority, "cert.pem": public} {
			if b, err := os.ReadFile(filepath.Join(to, "etc/ssl", name)); err != nil || string(b) != want {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
		for _, name := range []string{"bothy.pem", trust.Hash + ".0", "ssh_known_hosts2"} {
			if _, err := os.Lstat(filepath.Join(to, "etc/ssl/certs", name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	must(t, root(from).giveWay("/etc/ssl/certs/ca-certificates.crt"))
	must(t, root(from).giveWay("/etc/ssl/cert.pem"))
	if _, err := os.Lstat(filepath.Join(certs, "ca-certificates.crt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is in the way: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(from, "etc/ssl/cert.pem")); err != nil {
		t.Errorf("a link of the image's is gone: %v", err)
	}
}

// certificate makes the certificate of an authority, in PEM.
func certificate(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestUnpackHostile checks that no entry of an archive leaves its directory.
func TestUnpackHostile(t *testing.T) {
	for name, list := range map[string][]tar.Header{
		"up":       {{Name: "../../x", Typeflag: tar.TypeReg, Mode: 0o600}},
		"through":  {{Name: "d", Typeflag: tar.TypeSymlink, Linkname: "/"}, {Name: "d/x", Typeflag: tar.TypeReg, Mode: 0o600}},
		"hardlink": {{Name: "x", Typeflag: tar.TypeLink, Linkname: "../../../etc/passwd"}},
		"linked":   {{Name: "d", Typeflag: tar.TypeSymlink, Linkname: "../../../../../../etc"}, {Name: "x", Typeflag: tar.TypeLink, Linkname: "d/passwd"}},
		"mode":     {{Name: "d", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "d/x", Typeflag: tar.TypeDir, Mode: 0o777}},
	} {
		t.Run(name, func(t *testing.T) {
			var archive bytes.Buffer
			w := tar.NewWriter(&archive)
			for _, h := range list {
				h.Uid, h.Gid = os.Geteuid(), os.Getegid()
				must(t, w.WriteHeader(&h))
			}
			must(t, w.Close())
			for way, write := range map[string]func(io.Reader, string) error{
				"unpacked": unpack,
				"merged":   func(r io.Reader, dir string) error { return mergeArchive(r, dir, nil) },
			} {
				above := t.TempDir()
				dir := filepath.Join(above, "a", "b")
				must(t, os.MkdirAll(dir, 0o755))
				err := write(bytes.NewReader(archive.Bytes()), dir)
				for _, out := range []string{filepath.Join(above, "x"), "/x"} {
					if _, lerr := os.Lstat(out); lerr == nil {
						t.Errorf("%s, it came out: %v", way, err)
					}
				}
				if a, aerr := os.Stat(filepath.Join(dir, "x")); aerr == nil {
					if b, berr := os.Stat("/etc/passwd"); berr == nil && os.SameFile(a, b) {
						t.Errorf("%s, a file of the host's has another name", way)
					}
				}
			}
		})
	}
}

// TestUnpackArchive checks that a file with a long name or a comment first is still
// recognised as an archive, and that others are copied as files.
func TestUnpackArchive(t *testing.T) {
	long := strings.Repeat("long/", 120) + "name"
	me := tar.Header{Uid: os.Geteuid(), Gid: os.Getegid(), Mode: 0o600, Typeflag: tar.TypeReg}
	pax, gnu, git, device := me, me, me, me
	pax.Name, pax.Format = long, tar.FormatPAX
	gnu.Name, gnu.Format = long, tar.FormatGNU
	git.Name = "name"
	device.Name, device.Typeflag, device.Devmajor, device.Devminor = "null", tar.TypeChar, 1, 3
	comment := tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": strings.Repeat("c", 4000)}}
	for name, c := range map[string]struct {
		list []tar.Header
		want string
	}{
		"pax":    {[]tar.Header{pax}, long},
		"gnu":    {[]tar.Header{gnu}, long},
		"git":    {[]tar.Header{comment, git}, "name"},
		"device": {[]tar.Header{device, git}, "name"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			f, err := os.Create(filepath.Join(from, "a.tar"))
			must(t, err)
			w := tar.NewWriter(f)
			for _, h := range c.list {
				must(t, w.WriteHeader(&h))
			}
			must(t, errors.Join(w.Close(), f.Close()))
			me := &copy.User{UID: os.Geteuid(), GID: os.Getegid()}
			done, err := root(to).unpackArchive(from, "a.tar", "/", &pb.FileActionCopy{Timestamp: -1}, me)
			if _, lerr := os.Lstat(filepath.Join(to, c.want)); !done || err != nil || lerr != nil {
				t.Errorf("%v, %v, %v", done, err, lerr)
			}
			if _, err := os.Lstat(filepath.Join(to, "null")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a device was made: %v", err)
			}
		})
	}
	from := t.TempDir()
	must(t, os.WriteFile(filepath.Join(from, "a.tar"), []byte("text"), 0o600))
	if done, err := root(t.TempDir()).unpackArchive(from, "a.tar", "/", &pb.FileActionCopy{Timestamp: -1}, nil); done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
}

func TestDecompress(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write([]byte("text"))
	must(t, err)
	must(t, w.Close())
	for _, in := range []string{"text", z.String()} {
		r, err := decompress(strings.NewReader(in))
		must(t, err)
		if b, err := io.ReadAll(r); err != nil || string(b) != "text" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// Both contain dir/a, and were made by xz: by xz -9, and by xz --x86 --lzma2. Our reader
// knows only the second of those filters.
const (
	ofXZ       = "/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4Cf/AF1dADIaSqclS/NCXWq6cG4VJvWaiyX38K/lskalEEprCg8dzuPkkKvYMEQUn9N7PnLtmCBrjQ8ndAo1p55Sk3PO1kuL2zPXcLZfRa8RXsG6yO6cddjQ2QnNw0MaNbgAAAAAAACNWjaNq97ZLgABeYBQAAAA5DeTlbHEZ/sCAAAAAARZWg=="
	ofXZFilter = "/Td6WFoAAATm1rRGAgEEACEBEACLIW9J4Cf/AFtdADIaSqclS/NCXWq6cGyr5xjannPWC6GfkS1FbUK8keEG5LPcBMp7hQ47hv0mLIaX17HC2cj1jrVrRQA4fjObesXcDGxzgKjfeYab06PRoJT09snPeCUWrW/LQQAAAI1aNo2r3tkuAAF3gFAAAACUVpmvscRn+wIAAAAABFla"
)

// TestUnpackXZ checks that xz archives are unpacked without the program xz, or fail the
// build. They are never copied as files.
func TestUnpackXZ(t *testing.T) {
	t.Setenv("PATH", "")
	me := &copy.User{UID: os.Geteuid(), GID: os.Getegid()}
	for name, tt := range map[string]struct {
		of   string
		as   func(data []byte) []byte // nil: unchanged
		want bool
	}{
		"plain":                 {of: ofXZ, want: true},
		"filter":                {of: ofXZFilter},
		"cut off":               {of: ofXZ, as: func(data []byte) []byte { return data[:len(data)-40] }},
		"cut off in its header": {of: ofXZ, as: func(data []byte) []byte { return data[:8] }},
		"cut off behind it":     {of: ofXZ, as: func(data []byte) []byte { return data[:12] }},
		"one byte flipped":      {of: ofXZ, as: func(data []byte) []byte { data[8] ^= 0xff; return data }},
		"an unknown check": {of: ofXZ, as: func(data []byte) []byte {
			data[7] = 2
			binary.LittleEndian.PutUint32(data[8:], crc32.ChecksumIEEE(data[6:8]))
			return data
		}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := base64.StdEncoding.DecodeString(tt.of)
			must(t, err)
			if tt.as != nil {
				data = tt.as(data)
			}
			from, to := t.TempDir(), t.TempDir()
			must(t, os.WriteFile(filepath.Join(from, "a.tar.xz"), data, 0o600))
			done, err := root(to).unpackArchive(from, "a.tar.xz", "/", &pb.FileActionCopy{Timestamp: -1, Owner: &pb.ChownOpt{}}, me)
			if b, _ := os.ReadFile(filepath.Join(to, "dir/a")); tt.want != (done && err == nil && string(b) == "text\n") {
				t.Errorf("%t, %v; in it is %q", done, err, b)
			}
			if _, is := errors.AsType[*xzError](err); is == tt.want {
				t.Errorf("xz is to blame: %t: %v", is, err)
			}
		})
	}
}

// TestUncover checks that uncover reports a mount over /tmp that it cannot remove: steps
// would see that in place of the image's /tmp.
func TestUncover(t *testing.T) {
	if os.Getuid() == 0 { // only root can unmount
		must(t, uncover(t.TempDir()))
	}
	must(t, uncover(filepath.Join(t.TempDir(), "gone")))
	if err := uncover("/" + strings.Repeat("x", 300)); err == nil {
		t.Error("an error is none")
	}
}
