package archive

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestExtractRenameIsAPrison checks that with Rename everything stays below the new name.
func TestExtractRenameIsAPrison(t *testing.T) {
	tests := []struct {
		name  string
		items []item
	}{
		{"dots behind the first element", []item{{name: "../../canary", body: "dead"}}},
		{"more dots", []item{{name: "../../sub/canary", body: "dead"}}},
		{"the top is a link", []item{{name: "x", kind: tar.TypeSymlink, link: "."}, {name: "x/canary", body: "dead"}}},
		{"the top is a link to a directory", []item{{name: "x", kind: tar.TypeSymlink, link: "sub"}, {name: "x/canary", body: "dead"}}},
		{"a link below the top", []item{{name: "x/l", kind: tar.TypeSymlink, link: ".."}, {name: "x/l/canary", body: "dead"}}},
		{"a hard link beside", []item{{name: "../../canary", kind: tar.TypeLink, link: "../../canary"}, {name: "x/h", kind: tar.TypeLink, link: "../../canary"}}},
		{"a directory beside", []item{{name: "../../sub", kind: tar.TypeDir, mode: 0o777}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "canary", "alive", 0o600)
			put(t, dir, "sub/canary", "alive", 0o600)
			before := tree(t, dir)
			err := extract(t, bytes.NewReader(pack(t, tt.items...)), dir, ExtractOptions{Rename: "mine"})
			after := tree(t, dir)
			for name, b := range before {
				if name == "." {
					continue
				}
				if a := after[name]; a.body != b.body || a.mode != b.mode {
					t.Errorf("%s was %v %q and is %v %q (%v)", name, b.mode, b.body, a.mode, a.body, err)
				}
			}
			for name, a := range after {
				if a.inode == before["canary"].inode && name != "canary" && a.inode != 0 {
					t.Errorf("%s is a name of a file of the host's", name)
				}
			}
		})
	}
}

// TestExtractNeverFollowsLinksWithinRoot checks that Extract follows no link, as its comment says: even
// a link that stays below the root leads to files other than the archive's.
func TestExtractNeverFollowsLinksWithinRoot(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, ".ssh/authorized_keys", "alive", 0o600)
	_ = extract(t, bytes.NewReader(pack(t,
		item{name: "app/", kind: tar.TypeDir, mode: 0o755},
		item{name: "app/l", kind: tar.TypeSymlink, link: "../.ssh"},
		item{name: "app/l/authorized_keys", body: "dead"})), dir, ExtractOptions{Rename: "app"})
	if got := tree(t, dir)[".ssh/authorized_keys"].body; got != "alive" {
		t.Errorf("the key reads %q", got)
	}
}

func TestExtractBoundOverflow(t *testing.T) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	must(t, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o644, Size: 1}))
	_, err := tw.Write([]byte("x"))
	must(t, err)
	must(t, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "b", Mode: 0o644, Size: math.MaxInt64}))
	dir := t.TempDir()
	_ = extract(t, io.MultiReader(bytes.NewReader(b.Bytes()), bytes.NewReader(make([]byte, 1<<20))), dir, ExtractOptions{MaxBytes: 1000})
	if n := len(tree(t, dir)["b"].body); n > 1000 {
		t.Errorf("%d bytes were written, 1000 are allowed", n)
	}
}

// TestFollowCircle checks that links in a circle, as pnpm makes them, give an error and not an
// endless archive.
func TestFollowCircle(t *testing.T) {
	src := filepath.Join(t.TempDir(), "app")
	put(t, src, "f", "x", 0o644)
	must(t, os.Symlink(".", filepath.Join(src, "a")))
	must(t, os.Symlink(".", filepath.Join(src, "b")))
	var n counter
	if err := Write(&n, src, WriteOptions{Follow: true}); err == nil || n > 1<<20 {
		t.Errorf("%d bytes were written: %v", n, err)
	}
	must(t, Write(&n, src, WriteOptions{}))
}

// counter counts the bytes written to it.
type counter int

func (n *counter) Write(p []byte) (int, error) {
	*n += counter(len(p))
	return len(p), nil
}

// TestExtractGNUSparse checks tar -S with GNU's own format, the default of GNU tar.
func TestExtractGNUSparse(t *testing.T) {
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("no tar here")
	}
	src := put(t, t.TempDir(), "disk", "", 0o644)
	must(t, os.Truncate(src, 3<<20))
	for _, format := range []string{"gnu", "posix"} {
		out, err := exec.Command("tar", "--format="+format, "-C", filepath.Dir(src), "-cSf", "-", "disk").Output()
		must(t, err)
		dir := t.TempDir()
		must(t, extract(t, bytes.NewReader(out), dir, ExtractOptions{}))
		if n := len(tree(t, dir)["disk"].body); n != 3<<20 {
			t.Errorf("%s: it has %d bytes", format, n)
		}
		if err := extract(t, bytes.NewReader(out), t.TempDir(), ExtractOptions{NoHoles: true}); err == nil {
			t.Errorf("%s: it has holes, and was written", format)
		}
	}
}

// TestExtractOutward checks that files from a sandbox do not open anything to other users of the
// host.
func TestExtractOutward(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "there"), 0o700))
	was, err := os.Stat(filepath.Join(dir, "there"))
	must(t, err)
	must(t, extract(t, bytes.NewReader(pack(t,
		item{name: "there", kind: tar.TypeDir, mode: 0o777},
		item{name: "there/new", kind: tar.TypeDir, mode: 0o2777},
		item{name: "there/new/file", mode: 0o666},
		item{name: "there/new/tool", mode: 0o4777},
	)), dir, ExtractOptions{Outward: true}))
	for name, want := range map[string]fs.FileMode{"there": 0o700, "there/new": 0o755, "there/new/file": 0o644, "there/new/tool": 0o755} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if got := info.Mode() &^ fs.ModeDir; got != want {
			t.Errorf("%s has mode %v, want %v", name, got, want)
		}
		if name == "there" && info.ModTime().Before(was.ModTime()) {
			t.Errorf("it is of %v", info.ModTime())
		}
	}
}

// TestWriteNeverLeavesTheTree checks that Write stays in the tree if a file is swapped for a link
// meanwhile.
func TestWriteNeverLeavesTheTree(t *testing.T) {
	base := t.TempDir()
	secret := put(t, base, "secret", "SECRET", 0o600)
	src := filepath.Join(base, "app")
	put(t, src, "f", "public", 0o644)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		p := filepath.Join(src, "f")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Symlink(secret, p+".l")
			_ = os.Rename(p+".l", p)
			_ = os.WriteFile(p+".p", []byte("public"), 0o644)
			_ = os.Rename(p+".p", p)
		}
	}()
	defer func() { close(stop); <-stopped }()
	for began := time.Now(); time.Since(began) < time.Second; {
		var b bytes.Buffer
		_ = Write(&b, src, WriteOptions{})
		if bytes.Contains(b.Bytes(), []byte("SECRET")) {
			t.Fatal("a file outside of the tree is in the archive")
		}
	}
}
