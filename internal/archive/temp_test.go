package archive

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tarOf returns an archive with one file.
func tarOf(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestExtractCutShort checks that a file that arrives only in part is missing, or is still the earlier
// one, and that nothing is left next to it.
func TestExtractCutShort(t *testing.T) {
	for name, before := range map[string]string{"new": "", "there": "old", "deep/new": ""} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			at := filepath.Join(dir, name)
			if before != "" {
				if err := os.WriteFile(at, []byte(before), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := Extract(bytes.NewReader(tarOf(t, name, string(make([]byte, 1<<20))+"x")[:1<<19]), root, ExtractOptions{}); err == nil {
				t.Error("it is no error")
			}
			if b, err := os.ReadFile(at); string(b) != before || before == "" && err == nil {
				t.Errorf("it has %d bytes (%v)", len(b), err)
			}
			left, _ := filepath.Glob(filepath.Join(filepath.Dir(at), tempPrefix+"*"))
			if len(left) > 0 {
				t.Errorf("%v stay", left)
			}
		})
	}
}

// TestExtractAfterKill checks that a leftover of a killed Extract is removed by the next one,
// unless it is a link to something else, or is being written.
func TestExtractAfterKill(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	fd, err := dirHandle(root)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	extract := func() []string {
		t.Helper()
		if err := Extract(bytes.NewReader(tarOf(t, "file", "new")), root, ExtractOptions{}); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(filepath.Join(dir, "file")); string(b) != "new" {
			t.Errorf("it is %q", b)
		}
		left, _ := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
		return left
	}
	f, temp, err := createTemp(fd)
	if err != nil {
		t.Fatal(err)
	}
	if left := extract(); len(left) != 1 || filepath.Base(left[0]) != temp {
		t.Errorf("beside one that is being written there are %v", left)
	}
	f.Close() // as if it was killed, as others were
	must(t, os.WriteFile(filepath.Join(dir, tempPrefix+"OTHER"), nil, 0o600))
	must(t, os.Symlink("x", filepath.Join(dir, tempPrefix+"OTHER"+linkSuffix)))
	must(t, os.Symlink("x", filepath.Join(dir, tempPrefix+"GONE"+linkSuffix)))
	if left := extract(); len(left) > 0 {
		t.Errorf("%v stay", left)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(other, filepath.Join(dir, temp)); err != nil {
		t.Fatal(err)
	}
	extract()
	if b, _ := os.ReadFile(other); string(b) != "other" {
		t.Errorf("what the leftover was linked to is %q", b)
	}
}

// TestLinkKeepsWhatItCannotReplace checks that the file that a link would replace stays until the
// link exists, even if the link fails, and that nothing else is left.
func TestLinkKeepsWhatItCannotReplace(t *testing.T) {
	const killed = tempPrefix + "KILLED"
	regular := tar.Header{Name: "first", Mode: 0o644, Typeflag: tar.TypeReg}
	link := func(kind byte, to string) tar.Header {
		return tar.Header{Name: "there", Linkname: to, Typeflag: kind}
	}
	for name, c := range map[string]struct {
		headers []tar.Header
		fails   bool
		becomes string // the file whose content it has; "" for a symbolic link
	}{
		"a symbolic link":                {[]tar.Header{link(tar.TypeSymlink, "somewhere")}, false, ""},
		"one that is too long":           {[]tar.Header{link(tar.TypeSymlink, strings.Repeat("x", 5000))}, true, "old"},
		"a name of another file":         {[]tar.Header{regular, link(tar.TypeLink, "first")}, false, "first"},
		"the name that it has":           {[]tar.Header{regular, link(tar.TypeLink, "first"), link(tar.TypeLink, "first")}, false, "first"},
		"a name of one that is not here": {[]tar.Header{link(tar.TypeLink, "gone")}, true, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, "there")
			must(t, os.WriteFile(at, []byte("old"), 0o644))
			must(t, os.WriteFile(filepath.Join(dir, killed), nil, 0o600)) // one was killed
			must(t, os.Symlink("x", filepath.Join(dir, killed+linkSuffix)))
			root, err := os.OpenRoot(dir)
			must(t, err)
			defer root.Close()
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, h := range c.headers {
				must(t, w.WriteHeader(&h))
			}
			must(t, w.Close())
			if err := Extract(&b, root, ExtractOptions{}); (err != nil) != c.fails {
				t.Errorf("%v", err)
			}
			info, err := os.Lstat(at)
			must(t, err)
			if symbolic := info.Mode()&os.ModeSymlink != 0; symbolic != (c.becomes == "") {
				t.Errorf("it is %v", info.Mode())
			}
			if text, _ := os.ReadFile(at); c.becomes == "old" && string(text) != "old" || c.becomes == "first" && len(text) > 0 {
				t.Errorf("it has %q", text)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, tempPrefix+"*")); len(left) > 0 && !c.fails {
				t.Errorf("%v stay", left)
			}
		})
	}
}

// TestDirectoryTwice checks that the last mode counts if an archive names a directory twice.
func TestDirectoryTwice(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "d/", Mode: 0o555, Typeflag: tar.TypeDir},
		{Name: "d/file", Mode: 0o644, Typeflag: tar.TypeReg},
		{Name: "d/", Mode: 0o750, Typeflag: tar.TypeDir},
	} {
		must(t, w.WriteHeader(&h))
	}
	must(t, w.Close())
	must(t, Extract(&b, root, ExtractOptions{}))
	info, err := os.Stat(filepath.Join(dir, "d"))
	must(t, err)
	if info.Mode().Perm() != 0o750 {
		t.Errorf("it is %v", info.Mode())
	}
}
