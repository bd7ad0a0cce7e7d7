package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"
)

// item is one entry of a hostile archive.
type item struct {
	name string
	kind byte
	link string
	body string
	mode int64
}

// pack writes the entries as they are, in Go's own format or, if that refuses to, in the oldest one.
func pack(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, i := range items {
		if i.kind == 0 {
			i.kind = tar.TypeReg
		}
		if i.mode == 0 {
			i.mode = 0o644
			if i.kind == tar.TypeDir {
				i.mode = 0o755
			}
		}
		h := &tar.Header{Typeflag: i.kind, Name: i.name, Linkname: i.link, Mode: i.mode, Size: int64(len(i.body)), ModTime: time.Unix(1, 0)}
		must(t, tw.WriteHeader(h))
		_, err := tw.Write([]byte(i.body))
		must(t, err)
	}
	must(t, tw.Close())
	return b.Bytes()
}

// arena is a directory to extract into, with canaries around it.
type arena struct{ base, dir string }

func newArena(t testing.TB) arena {
	t.Helper()
	a := arena{base: t.TempDir()}
	a.dir = filepath.Join(a.base, "mid", "dst")
	must(t, os.MkdirAll(a.dir, 0o755))
	t.Cleanup(func() { unlock(a.dir) })
	put(t, a.base, "canary", "alive", 0o600)
	put(t, a.base, "mid/canary", "alive", 0o600)
	put(t, a.base, "mid/dst2/canary", "alive", 0o600)
	return a
}

// unlock makes every directory removable again for a user other than root.
func unlock(dir string) {
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
}

// outside describes everything around the directory, with inodes and modes: it must not change.
func (a arena) outside(t testing.TB) map[string]file {
	t.Helper()
	files := tree(t, a.base, a.dir)
	for name, f := range files {
		if f.mode.IsDir() {
			f.mtime = time.Time{} // t.TempDir is ours, others may be slow
			files[name] = f
		}
	}
	return files
}

func TestHostileArchives(t *testing.T) {
	tests := []struct {
		name  string
		items func(a arena) []item
		fails bool
		check func(t *testing.T, dir string)
	}{
		{"dots", func(arena) []item { return []item{{name: "../canary", body: "dead"}} }, true, nil},
		{"dots within", func(arena) []item { return []item{{name: "a/../../canary", body: "dead"}} }, true, nil},
		{"many dots", func(arena) []item { return []item{{name: strings.Repeat("../", 40) + "tmp/x", body: "dead"}} }, true, nil},
		{"only dots", func(arena) []item { return []item{{name: "..", kind: tar.TypeDir, mode: 0o777}} }, true, nil},
		{"absolute", func(a arena) []item { return []item{{name: a.base + "/canary", body: "dead"}} }, true, nil},
		{"absolute directory", func(a arena) []item { return []item{{name: a.base, kind: tar.TypeDir, mode: 0o777}} }, true, nil},
		{"no name", func(arena) []item { return []item{{name: "", body: "dead"}} }, true, nil},
		{"a file called dot", func(arena) []item { return []item{{name: ".", body: "dead"}} }, true, nil},
		{"a link called dot", func(arena) []item { return []item{{name: ".", kind: tar.TypeSymlink, link: "/"}} }, true, nil},
		{"a long name", func(arena) []item { return []item{{name: strings.Repeat("d/", maxName/2) + "x", body: "dead"}} }, true, func(t *testing.T, dir string) {
			if _, made := tree(t, dir)["d"]; made {
				t.Error("something was made")
			}
		}},
		{"dots that stay inside", func(arena) []item { return []item{{name: "a/../b", body: "x"}} }, false, func(t *testing.T, dir string) {
			if _, ok := tree(t, dir)["b"]; !ok {
				t.Error("it was not made")
			}
		}},

		{"through a relative link", func(arena) []item {
			return []item{{name: "l", kind: tar.TypeSymlink, link: ".."}, {name: "l/canary", body: "dead"}}
		}, true, nil},
		{"through an absolute link", func(a arena) []item {
			return []item{{name: "l", kind: tar.TypeSymlink, link: a.base}, {name: "l/canary", body: "dead"}}
		}, true, nil},
		{"through two links", func(arena) []item {
			return []item{{name: "d/l", kind: tar.TypeSymlink, link: "../m"}, {name: "m", kind: tar.TypeSymlink, link: ".."}, {name: "d/l/canary", body: "dead"}}
		}, true, nil},
		{"a directory through a link", func(a arena) []item {
			return []item{{name: "l", kind: tar.TypeSymlink, link: a.base}, {name: "l/mid", kind: tar.TypeDir, mode: 0o777}}
		}, true, nil},
		{"a directory over a link", func(a arena) []item {
			return []item{{name: "l", kind: tar.TypeSymlink, link: a.base + "/mid"}, {name: "l", kind: tar.TypeDir, mode: 0o777}}
		}, true, nil},
		{"a link where a directory was", func(a arena) []item {
			return []item{{name: "d", kind: tar.TypeDir, mode: 0o777}, {name: "d", kind: tar.TypeSymlink, link: a.base + "/mid"}}
		}, true, nil},
		{"a link through a link", func(arena) []item {
			return []item{{name: "l", kind: tar.TypeSymlink, link: ".."}, {name: "l/n", kind: tar.TypeSymlink, link: "canary"}}
		}, true, nil},
		{"a file over a link", func(a arena) []item {
			return []item{{name: "l", kind: tar.TypeSymlink, link: a.base + "/canary"}, {name: "l", body: "mine", mode: 0o666}}
		}, false, func(t *testing.T, dir string) {
			if l := tree(t, dir)["l"]; !l.mode.IsRegular() || l.body != "mine" {
				t.Errorf("it is %v with %q", l.mode, l.body)
			}
		}},
		{"a link kept as it is", func(arena) []item {
			return []item{{name: "l", kind: tar.TypeSymlink, link: "../../canary"}}
		}, false, func(t *testing.T, dir string) {
			if l := tree(t, dir)["l"]; l.body != "../../canary" {
				t.Errorf("it points to %q", l.body)
			}
		}},

		{"hard link with dots", func(arena) []item { return []item{{name: "h", kind: tar.TypeLink, link: "../canary"}} }, true, nil},
		{"absolute hard link", func(a arena) []item { return []item{{name: "h", kind: tar.TypeLink, link: a.base + "/canary"}} }, true, nil},
		{"hard link through a link", func(a arena) []item {
			return []item{{name: "l", kind: tar.TypeSymlink, link: a.base}, {name: "h", kind: tar.TypeLink, link: "l/canary"}, {name: "h", body: "dead"}}
		}, true, nil},
		{"hard link to a link", func(a arena) []item {
			return []item{{name: "l", kind: tar.TypeSymlink, link: a.base + "/canary"}, {name: "h", kind: tar.TypeLink, link: "l"}}
		}, true, nil},
		{"hard link to itself", func(arena) []item { return []item{{name: "h", kind: tar.TypeLink, link: "h"}} }, true, nil},
		{"hard link to nothing", func(arena) []item { return []item{{name: "h", kind: tar.TypeLink, link: "nothing"}} }, true, nil},
		{"hard link to a directory", func(arena) []item {
			return []item{{name: "d", kind: tar.TypeDir}, {name: "h", kind: tar.TypeLink, link: "d"}}
		}, true, nil},
		{"hard link in the place of a link", func(a arena) []item {
			return []item{{name: "f", body: "x"}, {name: "l", kind: tar.TypeSymlink, link: a.base + "/canary"}, {name: "l", kind: tar.TypeLink, link: "f"}}
		}, false, nil},

		{"the same file twice", func(arena) []item { return []item{{name: "f", body: "one"}, {name: "f", body: "two"}} }, false, func(t *testing.T, dir string) {
			if f := tree(t, dir)["f"]; f.body != "two" {
				t.Errorf("it reads %q", f.body)
			}
		}},
		{"the same file twice, linked between", func(arena) []item {
			return []item{{name: "f", body: "one"}, {name: "g", kind: tar.TypeLink, link: "f"}, {name: "f", body: "two"}}
		}, false, func(t *testing.T, dir string) {
			if files := tree(t, dir); files["f"].body != "two" || files["g"].body != "one" {
				t.Errorf("they read %q and %q: a link was written through", files["f"].body, files["g"].body)
			}
		}},
		{"a file below a file", func(arena) []item { return []item{{name: "f", body: "x"}, {name: "f/g", body: "y"}} }, true, nil},
		{"a directory over a file", func(arena) []item { return []item{{name: "f", body: "x"}, {name: "f", kind: tar.TypeDir}} }, true, nil},
		{"a file over a directory", func(arena) []item { return []item{{name: "d", kind: tar.TypeDir}, {name: "d", body: "x"}} }, true, nil},

		{"devices", func(arena) []item {
			return []item{{name: "null", kind: tar.TypeChar, mode: 0o666}, {name: "sda", kind: tar.TypeBlock, mode: 0o666}, {name: "pipe", kind: tar.TypeFifo}, {name: "f", body: "x"}}
		}, false, func(t *testing.T, dir string) {
			if files := tree(t, dir); len(files) != 2 || !files["f"].mode.IsRegular() {
				t.Errorf("it made %v", files)
			}
		}},
		{"set-uid", func(arena) []item {
			return []item{{name: "su", body: "x", mode: 0o6755}, {name: "d", kind: tar.TypeDir, mode: 0o7777}, {name: "h", kind: tar.TypeLink, link: "su", mode: 0o4755}}
		}, false, func(t *testing.T, dir string) {
			for name, f := range tree(t, dir) {
				if f.mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
					t.Errorf("%s has mode %v", name, f.mode)
				}
			}
		}},
		{"a directory nobody may enter is filled first", func(arena) []item {
			return []item{{name: "d", kind: tar.TypeDir, mode: 0o100}, {name: "d/e", kind: tar.TypeDir, mode: 0o500}, {name: "d/e/f", body: "x", mode: 0o400}}
		}, false, func(t *testing.T, dir string) {
			must(t, os.Chmod(filepath.Join(dir, "d"), 0o700))
			if f := tree(t, dir)["d/e/f"]; f.mode != 0o400 {
				t.Errorf("the file in it has mode %v", f.mode)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newArena(t)
			before := a.outside(t)
			err := extract(t, bytes.NewReader(pack(t, tt.items(a)...)), a.dir, ExtractOptions{})
			if (err != nil) != tt.fails {
				t.Errorf("it ended with %v", err)
			}
			if after := a.outside(t); !reflect.DeepEqual(after, before) {
				t.Errorf("outside changed from %v to %v", before, after)
			}
			if tt.check != nil {
				tt.check(t, a.dir)
			}
		})
	}
}

// TestExtractOverWhatIsThere checks that files in the destination are replaced and never written
// through.
func TestExtractOverWhatIsThere(t *testing.T) {
	a := newArena(t)
	must(t, os.Link(filepath.Join(a.base, "canary"), filepath.Join(a.dir, "hard")))
	must(t, os.Symlink("../canary", filepath.Join(a.dir, "soft")))
	before := a.outside(t)
	must(t, extract(t, bytes.NewReader(pack(t, item{name: "hard", body: "new"}, item{name: "soft", body: "new"})), a.dir, ExtractOptions{}))
	if after := a.outside(t); !reflect.DeepEqual(after, before) {
		t.Errorf("outside changed from %v to %v", before, after)
	}
	for _, name := range []string{"hard", "soft"} {
		if f := tree(t, a.dir)[name]; !f.mode.IsRegular() || f.body != "new" {
			t.Errorf("%s is %v with %q", name, f.mode, f.body)
		}
	}
}

// TestExtractOverSpecialFiles checks that a copy replaces only files and links, and never a
// device such as /dev/null.
func TestExtractOverSpecialFiles(t *testing.T) {
	for what, entry := range map[string]*tar.Header{
		"file": {Name: "there", Typeflag: tar.TypeReg, Mode: 0o644},
		"link": {Name: "there", Typeflag: tar.TypeSymlink, Linkname: "elsewhere"},
	} {
		for _, kind := range []uint32{unix.S_IFIFO, unix.S_IFSOCK} {
			dir := t.TempDir()
			if err := unix.Mknod(filepath.Join(dir, "there"), kind|0o600, 0); err != nil {
				t.Fatal(err)
			}
			var buf bytes.Buffer
			w := tar.NewWriter(&buf)
			if err := errors.Join(w.WriteHeader(entry), w.Close()); err != nil {
				t.Fatal(err)
			}
			err := extract(t, &buf, dir, ExtractOptions{})
			var st unix.Stat_t
			if e := unix.Lstat(filepath.Join(dir, "there"), &st); e != nil || st.Mode&unix.S_IFMT != kind || err == nil {
				t.Errorf("a %s over %o: %v, and now there is %o", what, kind, err, st.Mode)
			}
		}
	}
}

func TestExtractRename(t *testing.T) {
	dir := t.TempDir()
	must(t, extract(t, bytes.NewReader(pack(t,
		item{name: "app/", kind: tar.TypeDir, mode: 0o750}, item{name: "app/f", body: "x"}, item{name: "app/g", kind: tar.TypeLink, link: "app/f"},
	)), dir, ExtractOptions{Rename: "mine"}))
	files := tree(t, dir)
	if len(files) != 4 || files["mine"].mode != fs.ModeDir|0o750 || files["mine/f"].body != "x" || files["mine/f"].inode != files["mine/g"].inode {
		t.Errorf("it made %v", files)
	}
}

func TestExtractBounds(t *testing.T) {
	eight := func(name string) item { return item{name: name, body: "01234567"} }
	tests := []struct {
		name  string
		bound int64
		fails bool
	}{{"no bound", 0, false}, {"exactly", 16, false}, {"one too many", 15, true}, {"less than one file", 7, true}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			err := extract(t, bytes.NewReader(pack(t, eight("a"), eight("b"))), dir, ExtractOptions{MaxBytes: tt.bound})
			if (err != nil) != tt.fails {
				t.Errorf("it ended with %v", err)
			}
			if got := int64(len(tree(t, dir)["a"].body) + len(tree(t, dir)["b"].body)); tt.bound > 0 && got > tt.bound {
				t.Errorf("%d bytes were written, %d are allowed", got, tt.bound)
			}
		})
	}
}

// TestExtractHugeSize checks that a header that promises more than the stream has is an error, and takes
// no memory.
func TestExtractHugeSize(t *testing.T) {
	for _, size := range []int64{1 << 20, 1 << 33, math.MaxInt64} {
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		must(t, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "f", Mode: 0o644, Size: size}))
		b.WriteString("short")
		dir := t.TempDir()
		if err := extract(t, bytes.NewReader(b.Bytes()), dir, ExtractOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes promised, 5 sent: %v", size, err)
		}
		if got := len(tree(t, dir)["f"].body); got > 5 {
			t.Errorf("%d bytes were made of 5", got)
		}
	}
}

// TestExtractTruncated checks streams that end anywhere and arrive in any portions.
func TestExtractTruncated(t *testing.T) {
	whole := pack(t, item{name: "d/", kind: tar.TypeDir}, item{name: "d/f", body: strings.Repeat("x", 700)}, item{name: "d/l", kind: tar.TypeSymlink, link: "f"})
	for n := 1; n < 2*512+700; n += 97 { // up to the end of the file's content
		if err := extract(t, bytes.NewReader(whole[:n]), t.TempDir(), ExtractOptions{}); err == nil {
			t.Errorf("%d bytes of %d are a whole archive", n, len(whole))
		}
	}
	dir := t.TempDir()
	must(t, extract(t, iotest.OneByteReader(bytes.NewReader(whole)), dir, ExtractOptions{}))
	if got := len(tree(t, dir)); got != 4 {
		t.Errorf("byte by byte it made %d files", got)
	}
}

// FuzzExtract checks for any bytes that nothing outside the root changes, and that Extract does
// not panic.
func FuzzExtract(f *testing.F) {
	f.Add(pack(f, item{name: "d/", kind: tar.TypeDir}, item{name: "d/f", body: "x"}, item{name: "h", kind: tar.TypeLink, link: "d/f"}))
	f.Add(pack(f, item{name: "l", kind: tar.TypeSymlink, link: "../.."}, item{name: "l/canary", body: "dead"}))
	f.Add(pack(f, item{name: "l", kind: tar.TypeSymlink, link: ".."}, item{name: "h", kind: tar.TypeLink, link: "l/canary"}, item{name: "h", body: "dead"}))
	f.Add(pack(f, item{name: "../canary", body: "dead"}, item{name: "a/../../canary", kind: tar.TypeLink, link: "../canary"}))
	f.Add(pack(f, item{name: "l", kind: tar.TypeSymlink, link: ".."}, item{name: "l", kind: tar.TypeDir, mode: 0o777}))
	f.Add([]byte("not an archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := newArena(t)
		before := a.outside(t)
		_ = extract(t, io.LimitReader(bytes.NewReader(data), 1<<20), a.dir, ExtractOptions{MaxBytes: 1 << 20})
		if after := a.outside(t); !reflect.DeepEqual(after, before) {
			t.Errorf("outside changed from %v to %v", before, after)
		}
	})
}
