package step

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// archived makes an archive of files, named as in put. A hard link to another of them is
// written "=> name".
func archived(t *testing.T, list ...[2]string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range list {
		name, rest, _ := strings.Cut(f[0], " ")
		h := &tar.Header{Name: name, Mode: 0o640, Uid: 7, Gid: 8, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if rest != "" {
			h.Mode = 0
			for _, c := range rest {
				h.Mode = h.Mode*8 + int64(c-'0')
			}
		}
		switch {
		case strings.HasPrefix(f[1], "-> "):
			h.Typeflag, h.Linkname = tar.TypeSymlink, f[1][3:]
		case strings.HasPrefix(f[1], "=> "):
			h.Typeflag, h.Linkname = tar.TypeLink, f[1][3:]
		case strings.HasSuffix(name, "/"):
			h.Typeflag = tar.TypeDir
		default:
			h.Size = int64(len(f[1]))
		}
		must(t, w.WriteHeader(h))
		if h.Size > 0 {
			_, err := io.WriteString(w, f[1])
			must(t, err)
		}
	}
	must(t, w.Close())
	return b.String()
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Name = "a.tar"
	_, err := io.WriteString(w, text)
	must(t, err)
	must(t, w.Close())
	return b.String()
}

func zstandard(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must(t, err)
	defer w.Close()
	return string(w.EncodeAll([]byte(text), nil))
}

// ofBzip2 contains dir/a, with the mode 640 and the owner 7:7.
const ofBzip2 = "QlpoOTFBWSZTWWFarUMAAG/7gNGQAAJAAM+AAAhmIB5ACAggAFQ0gCZMmnpMNIJJJ6IZNGgAfazIIQXuhCKcxsaUukgQwdwJZvZkOwg1kF9HZrWWCmA5mr6+donE52REB+LuSKcKEgwrVahg"

func decoded(t *testing.T, text string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	must(t, err)
	return string(b)
}

// damaged flips one byte of a file.
func damaged(text string, at int) string {
	b := []byte(text)
	b[at] ^= 0xff
	return string(b)
}

// TestConformAdd checks which archives ADD unpacks, and how.
func TestConformAdd(t *testing.T) {
	one := archived(t, [2]string{"dir/ 750", ""}, [2]string{"dir/a", "text"})
	unpacked := []string{`755 0:0 /d/`, `750 7:8 /d/dir/`, `640 7:8 /d/dir/a text`}
	add := func(text string) conformance {
		return conformance{text: "FROM base\nADD a /d/\n", context: map[string]string{"a": text}, want: unpacked}
	}
	onto := func(image, dest string, list ...[2]string) conformance {
		return conformance{text: "FROM " + image + "\nADD a " + dest + "\n", context: map[string]string{"a": archived(t, list...)}}
	}
	as := func(c conformance, want ...string) conformance { c.want = want; return c }
	flags := func(c conformance, flags string) conformance {
		c.text = strings.Replace(c.text, "ADD ", "ADD "+flags+" ", 1)
		return c
	}
	cases := map[string]conformance{
		"plain":            add(one),
		"gzip":             add(gzipped(t, one)),
		"zstd":             add(zstandard(t, one)),
		"zstd, skippable":  add("\x50\x2a\x4d\x18\x04\x00\x00\x00skip" + zstandard(t, one)), // as pzstd makes them
		"bzip2":            as(add(decoded(t, ofBzip2)), `755 0:0 /d/`, `755 0:0 /d/dir/`, `640 7:7 /d/dir/a text\n`),
		"xz":               as(add(decoded(t, ofXZ)), `755 0:0 /d/`, `755 0:0 /d/dir/`, `644 0:0 /d/dir/a text\n`),
		"to a name":        {text: "FROM base\nADD a /d\n", context: map[string]string{"a": one}, want: unpacked},
		"by a link":        {text: "FROM base\nADD l /d/\n", context: map[string]string{"a": one, "l": "-> a"}, want: unpacked},
		"copied":           {text: "FROM base\nCOPY a /d\n", context: map[string]string{"a": "text"}, want: []string{`644 0:0 /d text`}},
		"wildcard":         {text: "FROM base\nADD *.x /d/\n", context: map[string]string{"a.x": one, "b.x": "plain"}, want: append([]string{`755 0:0 /d/`, `644 0:0 /d/b.x plain`}, unpacked[1:]...)},
		"in a directory":   {text: "FROM base\nADD s /d/\n", context: map[string]string{"s/a": gzipped(t, "x")[:2]}, want: []string{`755 0:0 /d/`, `644 0:0 /d/a \x1f\x8b`}},
		"from a stage":     {text: "FROM base AS a\nCOPY a /a\nFROM base\nADD --from=a /a /d/\n", context: map[string]string{"a": one}, fails: "unknown flag: --from"},
		"text":             as(add("text"), `755 0:0 /d/`, `644 0:0 /d/a text`),
		"empty":            as(add(""), `755 0:0 /d/`, `644 0:0 /d/a`),
		"unpack=false":     flags(as(add("text"), `755 0:0 /d/`, `644 0:0 /d/a text`), "--unpack=false"),
		"chown":            flags(as(add(one), `755 33:34 /d/`, `750 33:34 /d/dir/`, `640 33:34 /d/dir/a text`), "--chown=web"),
		"chmod":            flags(add(one), "--chmod=700"),
		"its root":         as(onto("existing", "/old", [2]string{"./ 777", ""}, [2]string{"./x", "1"}), `640 7:8 /old/x 1`),
		"implied parents":  flags(as(onto("base", "/d/", [2]string{"p/q", "1"}), `755 33:34 /d/`, `755 0:0 /d/p/`, `640 33:34 /d/p/q 1`), "--chown=web"),
		"link":             as(onto("base", "/", [2]string{"l", "-> ../x"}), `/l -> ../x`),
		"hard link":        as(onto("base", "/", [2]string{"a", "1"}, [2]string{"b", "=> a"}), `640 7:8 /a (2 names) 1`, `640 7:8 /b (2 names) 1`),
		"set-uid":          as(onto("base", "/", [2]string{"a 4755", "1"}), `4755 7:8 /a 1`),
		"up":               as(onto("base", "/d/", [2]string{"../../a", "1"}), `755 0:0 /d/`, `640 7:8 /d/a 1`),
		"over a file":      as(onto("existing", "/", [2]string{"old/file", "1"}), `640 7:8 /old/file 1`),
		"over a directory": as(onto("existing", "/", [2]string{"old", "1"}), `640 7:8 /old 1`, `gone /old/file`, `gone /old/sub`),
		"a dir over a dir": as(onto("existing", "/", [2]string{"old/ 777", ""}), `777 7:8 /old/`),
		"a file for a dir": as(onto("base", "/", [2]string{"k/ 755", ""}, [2]string{"k/sub/ 777", ""}, [2]string{"k 600", "key"}), `600 7:8 /k key`),
		"a link for a dir": as(onto("existing", "/", [2]string{"k/ 777", ""}, [2]string{"k", "-> old"}), `/k -> old`),
		"absolute link":    as(onto("existing", "/", [2]string{"k/ 777", ""}, [2]string{"k", "-> /old"}), `/k -> /old`),
		"dangling link":    as(onto("existing", "/", [2]string{"k/ 777", ""}, [2]string{"k", "-> nothing"}), `/k -> nothing`),
		"a dir twice":      as(onto("base", "/", [2]string{"k/ 777", ""}, [2]string{"k/ 700", ""}), `700 7:8 /k/`),
		"over a link":      as(onto("existing", "/", [2]string{"into", "1"}), `640 7:8 /into 1`),
		"a dir over one":   as(onto("existing", "/", [2]string{"var/run/ 755", ""}), `755 7:8 /var/run/`),
		"through a link":   as(onto("existing", "/", [2]string{"var/run/x", "1"}), `640 7:8 /run/x 1`),
		"to a link":        as(onto("existing", "/var/run", [2]string{"x", "1"}), `640 7:8 /run/x 1`),
		"then through it":  {text: "FROM scratch\nADD t.tar /\nCOPY foo /symlink/\n", context: map[string]string{"t.tar": archived(t, [2]string{"symlink", "-> ../tmp/target"}), "foo": "c"}, want: []string{`/symlink -> ../tmp/target`, `755 0:0 /tmp/`, `755 0:0 /tmp/target/`, `644 0:0 /tmp/target/foo c`}},
		"url":              {text: "FROM base\nADD https://example.com/x /x\n", fails: "ADD of https://example.com/x is not supported"},
		"url, checksum":    {text: "FROM base\nADD --checksum=sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 https://example.com/x /x\n", fails: "is not supported"},
		"file, checksum":   {text: "FROM base\nADD --checksum=sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 a /x\n", fails: "checksum requires HTTP(S) or Git sources"},
		"git":              {text: "FROM base\nADD --keep-git-dir=true https://github.com/a/b.git#v1:sub /x\n", fails: "is not supported"},
	}
	conform(t, cases)
}

// TestConformAddDamaged checks damaged archives of gzip, bzip2 and zstd. If the damage is
// so early that the file cannot be recognised as an archive, it is copied unchanged, as
// BuildKit does (isArchivePath in solver/llbsolver/file/unpack.go: any error means that it
// is not an archive). Later damage is an error.
func TestConformAddDamaged(t *testing.T) {
	big := archived(t, [2]string{"a", strings.Repeat("0123456789abcdef", 8192)})
	files := map[string]struct {
		text  string
		fails string
	}{
		"gzip, method":          {damaged(gzipped(t, big), 2), ""},
		"gzip, flags":           {damaged(gzipped(t, big), 3), ""},
		"gzip, only its magic":  {"\x1f\x8b\x08", ""},
		"gzip, cut off":         {gzipped(t, big)[:12], ""},
		"gzip, first block":     {damaged(gzipped(t, big), 16), ""},
		"gzip of no archive":    {gzipped(t, "text"), ""},
		"gzip, cut off later":   {gzipped(t, big)[:len(gzipped(t, big))-20], "unexpected EOF"},
		"zstd, only its magic":  {"\x28\xb5\x2f\xfd", ""},
		"zstd, header":          {damaged(zstandard(t, big), 4), ""},
		"zstd, cut off":         {zstandard(t, big)[:8], ""},
		"zstd, skippable, none": {"\x50\x2a\x4d\x18\x04\x00\x00\x00skip", ""},
		"bzip2, header":         {damaged(decoded(t, ofBzip2), 5), ""},
		"bzip2, only its magic": {"BZh", ""},
		"tar, header":           {damaged(big, 0), ""},
		"tar, cut off":          {big[:600], "unexpected EOF"},
		"tar, cut off later":    {big[:4096], "unexpected EOF"},
	}
	cases := map[string]conformance{}
	for name, f := range files {
		c := conformance{text: "FROM base\nADD a /d\n", context: map[string]string{"a": f.text}, fails: f.fails}
		if f.fails == "" {
			put := fill(t, c.context)
			c.want = []string{strings.Replace(listing(t, put)["a"], "/a", "/d", 1)}
		}
		cases[name] = c
	}
	// If only the end is damaged, all files are unpacked: neither BuildKit nor we check the
	// sum.
	whole := gzipped(t, archived(t, [2]string{"a", "1"}))
	cases["gzip, sum"] = conformance{text: "FROM base\nADD a /\n", context: map[string]string{"a": damaged(whole, len(whole)-6)}, want: []string{`640 7:8 /a 1`}}
	conform(t, cases)
}
