package npm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/agent/registrytest"
	"github.com/bothy-dev/bothy/spec"
)

type entry = registrytest.Entry

func kind(name string, kind byte, link string) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: kind, Linkname: link, Mode: 0o777}}
}

var (
	file = registrytest.File
	good = registrytest.Program("package/bin/x", "program")
)

// unpacked unpacks into a nested directory, so that the test sees files that lead out of it.
func unpacked(t *testing.T, b bounds, r io.Reader) (dir string, err error) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "in", "root")
	must(t, os.MkdirAll(dir, 0o755))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	return dir, b.unpack(r, root, "bin/x")
}

func TestUnpack(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077)) // a user with a strict umask
	setuid := registrytest.Program("package/bin/setuid", "s")
	setuid.Mode = 0o6777
	dir, err := unpacked(t, usual, bytes.NewReader(registrytest.Tarball(t,
		entry{Header: tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}},
		kind("package/", tar.TypeDir, ""), kind("package/empty/", tar.TypeDir, ""), kind("package/empty/", tar.TypeDir, ""),
		good, setuid, file("package/package.json", "{}"), file("package/a/b/c/d.js", "d"), file("other/e", "e"), file("package/ü..x", "u"),
	)))
	must(t, err)
	var got []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		must(t, err)
		info, err := d.Info()
		must(t, err)
		name, _ := filepath.Rel(dir, path)
		got = append(got, name+" "+info.Mode().String())
		return nil
	}))
	want := []string{
		". drwx------", "a drwxr-xr-x", "a/b drwxr-xr-x", "a/b/c drwxr-xr-x", "a/b/c/d.js -r--r--r--", "bin drwxr-xr-x", "bin/setuid -r-xr-xr-x",
		"bin/x -r-xr-xr-x", "e -r--r--r--", "empty drwxr-xr-x", "package.json -r--r--r--", "ü..x -r--r--r--",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "bin/x")); err != nil || string(b) != "program" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestUnpackMakesProgramExecutable checks that the program is executable even if it was not packed so.
func TestUnpackMakesProgramExecutable(t *testing.T) {
	dir, err := unpacked(t, usual, bytes.NewReader(registrytest.Tarball(t, file("package/bin/x", "p"))))
	must(t, err)
	if info, err := os.Stat(filepath.Join(dir, "bin/x")); err != nil || info.Mode() != 0o555 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	for name, entries := range map[string][]entry{
		"up":                        {good, file("../evil", "")},
		"up in the middle":          {good, file("package/../../evil", "")},
		"up, after the first":       {good, file("package/../evil", "")},
		"up, instead of the first":  {good, file("../../evil", "")},
		"absolute":                  {good, file("/evil", "")},
		"absolute, twice":           {good, file("//evil", "")},
		"a dot":                     {good, file("./package/evil", "")},
		"an empty element":          {good, file("package//evil", "")},
		"nothing":                   {good, file("package", "")},
		"a backslash":               {good, file(`package\..\evil`, "")},
		"a control character":       {good, file("package/evil\x1b[2J", "")},
		"no UTF-8":                  {good, file("package/evil\xff", "")},
		"a symbolic link":           {good, kind("package/evil", tar.TypeSymlink, "/etc/passwd")},
		"a symbolic link inside":    {good, kind("package/evil", tar.TypeSymlink, "bin")},
		"a hard link":               {good, kind("package/evil", tar.TypeLink, "package/bin/x")},
		"a device":                  {good, kind("package/evil", tar.TypeChar, "")},
		"a block device":            {good, kind("package/evil", tar.TypeBlock, "")},
		"a pipe":                    {good, kind("package/evil", tar.TypeFifo, "")},
		"something unknown":         {good, kind("package/evil", 'Z', "")},
		"the same name":             {good, file("package/bin/x", "evil")},
		"the same behind the first": {good, file("other/bin/x", "evil")},
		"the same but for case":     {good, file("package/bin/X", "evil")},
		"a directory but for case":  {good, file("package/Bin/y", "evil")},
		"the Kelvin sign":           {good, file("package/k", ""), file("package/\u212a", "")},
		"a file for a directory":    {good, file("package/bin/x/y", "evil")},
		"a directory for a file":    {good, kind("package/bin/x/", tar.TypeDir, "")},
		"a file for its directory":  {good, file("package/bin", "evil")},
		"a long name":               {good, file("package/"+strings.Repeat("a/", 600)+"x", "")},
		"no program":                {file("package/bin/y", "")},
		"a directory for a program": {kind("package/bin/x/", tar.TypeDir, "")},
		"nothing at all":            nil,
	} {
		dir, err := unpacked(t, usual, bytes.NewReader(registrytest.Tarball(t, entries...)))
		if !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
		for _, beside := range []string{"..", "../.."} {
			if list, _ := os.ReadDir(filepath.Join(dir, beside)); len(list) != 1 {
				t.Errorf("%s: it left the directory: %v", name, list)
			}
		}
	}
}

func TestUnpackDamaged(t *testing.T) {
	whole := registrytest.Tarball(t, good, entry{Header: tar.Header{Name: "package/noise"}, Body: string(noise(100 << 10))})
	for name, b := range map[string][]byte{
		"cut off":           whole[:len(whole)-1000],
		"without its sum":   whole[:len(whole)-8],
		"another sum":       append(bytes.Clone(whole[:len(whole)-8]), "12345678"...),
		"not compressed":    []byte("package"),
		"empty":             nil,
		"followed by other": append(bytes.Clone(whole), "other"...),
	} {
		if _, err := unpacked(t, usual, bytes.NewReader(b)); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnpackBounds(t *testing.T) {
	zeros := strings.Repeat("\x00", 1<<20)
	var behind bytes.Buffer
	plain, err := gzip.NewReader(bytes.NewReader(registrytest.Tarball(t, good)))
	must(t, err)
	z := gzip.NewWriter(&behind)
	_, err = io.Copy(z, plain)
	must(t, err)
	for range 4 {
		_, err = io.WriteString(z, zeros)
		must(t, err)
	}
	must(t, z.Close())
	var many []entry
	for i := range 50 {
		many = append(many, file("package/"+strings.Repeat("d/", i)+"f", ""))
	}
	for name, b := range map[string][]byte{
		"a large file":             registrytest.Tarball(t, good, file("package/a", zeros+zeros)),
		"several files":            registrytest.Tarball(t, good, file("package/a", zeros), file("package/b", zeros)),
		"behind the archive":       behind.Bytes(),
		"many files":               registrytest.Tarball(t, append(many, good)...),
		"a sparse file of nothing": sparse(t),
	} {
		dir, err := unpacked(t, bounds{bytes: 3 << 19, files: 60}, bytes.NewReader(b))
		if !errors.Is(err, spec.ErrDenied) || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %v", name, err)
		}
		var sum int64
		must(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if info, ierr := d.Info(); ierr == nil && d.Type().IsRegular() {
				sum += info.Size()
			}
			return err
		}))
		if sum > 3<<19 {
			t.Errorf("%s: %d bytes were written", name, sum)
		}
	}
}

// sparse packs a file that claims a terabyte and has no data. Go cannot write such a file,
// so its records are renamed afterwards.
func sparse(t *testing.T) []byte {
	t.Helper()
	whole := registrytest.Tarball(t, good, entry{Header: tar.Header{Name: "package/x", PAXRecords: map[string]string{
		"ZZZ.sparse.major": "1", "ZZZ.sparse.minor": "0", "ZZZ.sparse.name": "package/sparse", "ZZZ.sparse.realsize": "1099511627776",
	}}, Body: "0\n" + strings.Repeat("\x00", 510)})
	z, err := gzip.NewReader(bytes.NewReader(whole))
	must(t, err)
	plain, err := io.ReadAll(z)
	must(t, err)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(bytes.ReplaceAll(plain, []byte("ZZZ.sparse"), []byte("GNU.sparse")))
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

func FuzzUnpack(f *testing.F) {
	f.Add(registrytest.Tarball(f, good))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir, _ := unpacked(t, bounds{bytes: 1 << 20, files: 100}, bytes.NewReader(b))
		if list, _ := os.ReadDir(filepath.Join(dir, "..")); len(list) != 1 {
			t.Errorf("it left the directory: %v", list)
		}
	})
}
