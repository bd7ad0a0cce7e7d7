package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/racetest"
)

// file has the properties of a file that are compared.
type file struct {
	mode  fs.FileMode
	body  string
	mtime time.Time
	inode uint64
}

// tree reads everything below dir except the paths in without.
func tree(t testing.TB, dir string, without ...string) map[string]file {
	t.Helper()
	files := map[string]file{}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if slices.Contains(without, p) {
			return filepath.SkipDir
		}
		if err != nil {
			return err
		}
		info, err := os.Lstat(p)
		if err != nil {
			return err
		}
		f := file{mode: info.Mode(), mtime: info.ModTime().Truncate(time.Microsecond)}
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(p, &st); err != nil {
				return err
			}
			f.body, f.inode = string(b), st.Ino
		case info.Mode()&fs.ModeSymlink != 0:
			f.body, f.mtime = mustReadlink(t, p), time.Time{} // links are created now
		}
		rel, err := filepath.Rel(dir, p)
		files[rel] = f
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func mustReadlink(t testing.TB, p string) string {
	t.Helper()
	target, err := os.Readlink(p)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// withoutInodes makes trees comparable that are copies of each other.
func withoutInodes(files map[string]file) map[string]file {
	out := map[string]file{}
	for name, f := range files {
		f.inode = 0
		out[name] = f
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, dir, name, body string, mode fs.FileMode) string {
	t.Helper()
	p := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, []byte(body), 0o600))
	must(t, os.Chmod(p, mode))
	return p
}

func write(t testing.TB, src string, o WriteOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, Write(&b, src, o))
	return b.Bytes()
}

func extract(t testing.TB, data io.Reader, dir string, o ExtractOptions) error {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	return Extract(data, root, o)
}

func names(t testing.TB, data []byte) []string {
	t.Helper()
	var list []string
	for tr := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return list
		}
		must(t, err)
		list = append(list, h.Name)
	}
}

func TestRoundTrip(t *testing.T) {
	src := filepath.Join(t.TempDir(), "app")
	put(t, src, "empty", "", 0o644)
	put(t, src, "big", strings.Repeat("0123456789abcdef", 70_000), 0o640)
	put(t, src, "secret", "s", 0o400)
	put(t, src, "tool", "#!/bin/sh\n", 0o755)
	must(t, os.Link(filepath.Join(src, "tool"), filepath.Join(src, "tool2")))
	put(t, src, "sub/deep/er/f", "x", 0o600)
	must(t, os.Link(filepath.Join(src, "tool"), filepath.Join(src, "sub/tool3")))
	must(t, os.Mkdir(filepath.Join(src, "hollow"), 0o711))
	for link, to := range map[string]string{"in": "sub/deep", "out": "../../elsewhere", "abs": "/etc/passwd", "dangling": "nothing", "self": "self"} {
		must(t, os.Symlink(to, filepath.Join(src, link)))
	}
	for _, odd := range []string{" ", "-rf", "a\nb", "tab\there", "\x1b[2J", "caf\xe9", "naïve", "日本", "back\\slash", "a'b\"c", "...", "..x", "=", strings.Repeat("n", 255), "päth/" + strings.Repeat("d/", 120) + "leaf"} {
		put(t, src, odd, odd, 0o644)
	}
	must(t, os.Chmod(filepath.Join(src, "hollow"), 0o500))
	when := time.Date(2001, 2, 3, 4, 5, 6, 789_000, time.UTC)
	for _, name := range []string{"tool", "sub/deep/er/f", "sub/deep", "hollow"} {
		must(t, os.Chtimes(filepath.Join(src, name), when, when))
	}

	dst := t.TempDir()
	must(t, extract(t, bytes.NewReader(write(t, src, WriteOptions{})), dst, ExtractOptions{}))
	want, got := tree(t, src), tree(t, filepath.Join(dst, "app"))
	if w, g := withoutInodes(want), withoutInodes(got); !reflect.DeepEqual(w, g) {
		for name := range w {
			if !reflect.DeepEqual(w[name], g[name]) {
				t.Errorf("%q: wrote %v %s, read %v %s", name, w[name].mode, w[name].mtime, g[name].mode, g[name].mtime)
			}
		}
		t.Errorf("wrote %d files, read %d", len(w), len(g))
	}
	if a, b, c := got["tool"].inode, got["tool2"].inode, got["sub/tool3"].inode; a != b || a != c {
		t.Errorf("three names of one file became inodes %d, %d, %d", a, b, c)
	}
	if got["tool"].inode == got["empty"].inode {
		t.Error("two files became one")
	}
}

func TestRoundTripSparse(t *testing.T) {
	src := put(t, t.TempDir(), "disk", "", 0o644)
	f, err := os.OpenFile(src, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("end"), 8<<20)
	must(t, err)
	must(t, f.Close())
	dst := t.TempDir()
	must(t, extract(t, bytes.NewReader(write(t, src, WriteOptions{})), dst, ExtractOptions{}))
	want, err := os.ReadFile(src)
	must(t, err)
	got, err := os.ReadFile(filepath.Join(dst, "disk"))
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes became %d others", len(want), len(got))
	}
}

func TestWriteOptions(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "app")
	put(t, src, "f", "body", 0o644)
	must(t, os.Symlink("f", filepath.Join(src, "l")))
	must(t, os.Symlink("app", filepath.Join(dir, "alias")))
	tests := []struct {
		name, src string
		o         WriteOptions
		want      []string
	}{
		{"a tree", "app", WriteOptions{}, []string{"app/", "app/f", "app/l"}},
		{"another name", "app", WriteOptions{Name: "x"}, []string{"x/", "x/f", "x/l"}},
		{"contents only", "app", WriteOptions{Name: "."}, []string{"./", "f", "l"}},
		{"one file", "app/f", WriteOptions{}, []string{"f"}},
		{"a link stays one", "alias", WriteOptions{}, []string{"alias"}},
		{"a link is followed", "alias", WriteOptions{Follow: true}, []string{"alias/", "alias/f", "alias/l"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := names(t, write(t, filepath.Join(dir, tt.src), tt.o)); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("it has %q, want %q", got, tt.want)
			}
		})
	}
	if got := names(t, write(t, filepath.Join(dir, "app/f"), WriteOptions{Straight: true})); !reflect.DeepEqual(got, []string{"f"}) {
		t.Errorf("a straight path has %q", got)
	}
	must(t, unix.Mkfifo(filepath.Join(dir, "app/pipe"), 0o600))
	if l, err := net.Listen("unix", filepath.Join(dir, "app/sock")); err != nil {
		t.Fatal(err)
	} else {
		defer l.Close()
	}
	if got := names(t, write(t, src, WriteOptions{})); !reflect.DeepEqual(got, []string{"app/", "app/f", "app/l"}) {
		t.Errorf("pipes and sockets are not left out: %q", got)
	}
	if got := names(t, write(t, src, WriteOptions{Special: true})); !reflect.DeepEqual(got, []string{"app/", "app/f", "app/l", "app/pipe", "app/sock"}) {
		t.Errorf("with pipes and sockets it has %q", got)
	}
	for _, crooked := range []string{"alias", "alias/f", "app/l"} {
		if err := Write(io.Discard, filepath.Join(dir, crooked), WriteOptions{Straight: true}); err == nil {
			t.Errorf("%s leads through a link, and is archived", crooked)
		}
	}
	dst := t.TempDir()
	must(t, extract(t, bytes.NewReader(write(t, src, WriteOptions{Follow: true})), dst, ExtractOptions{}))
	if l := tree(t, dst)["app/l"]; !l.mode.IsRegular() || l.body != "body" {
		t.Errorf("a followed link is %v with %q", l.mode, l.body)
	}
}

// TestWriteSkipsSpecialFiles checks that Write leaves out special files, and does not wait for a
// pipe's other end.
func TestWriteSkipsSpecialFiles(t *testing.T) {
	src := filepath.Join(t.TempDir(), "app")
	put(t, src, "f", "x", 0o644)
	must(t, unix.Mkfifo(filepath.Join(src, "pipe"), 0o666))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(src, "sock")}))
	if got, want := names(t, write(t, src, WriteOptions{})), []string{"app/", "app/f"}; !reflect.DeepEqual(got, want) {
		t.Errorf("it has %q, want %q", got, want)
	}
}

// TestWriteOddSource checks that Write does not silently skip the source itself.
func TestWriteOddSource(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(pipe, 0o666))
	if err := Write(io.Discard, pipe, WriteOptions{}); !errors.Is(err, errOdd) {
		t.Errorf("a pipe: %v", err)
	}
	must(t, Write(io.Discard, pipe, WriteOptions{Special: true}))
}

// TestWriteUnreadable checks that one unreadable entry does not stop the others, and is named.
func TestWriteUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can read everything")
	}
	src := filepath.Join(t.TempDir(), "app")
	put(t, src, "a", "x", 0o644)
	put(t, src, "b", "x", 0)
	put(t, src, "c", "x", 0o644)
	var buf bytes.Buffer
	if err := Write(&buf, src, WriteOptions{}); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "app/b") {
		t.Errorf("it ended with %v", err)
	}
	if got, want := names(t, buf.Bytes()), []string{"app/", "app/a", "app/c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("it has %q, want %q", got, want)
	}
}

func TestWriteMissing(t *testing.T) {
	if err := Write(io.Discard, filepath.Join(t.TempDir(), "nothing"), WriteOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("archived what is not there: %v", err)
	}
}

// TestWriteWhileFilesChange checks that a file that changes its size while it is read keeps the
// size of its header, so that the rest of the stream stays readable.
func TestWriteWhileFilesChange(t *testing.T) {
	racetest.Skip(t)
	src := filepath.Join(t.TempDir(), "app")
	path := put(t, src, "a", strings.Repeat("x", 1<<20), 0o644)
	put(t, src, "b", "after", 0o644)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for size := int64(0); ; size = (size + 300_001) % (2 << 20) {
			select {
			case <-stop:
				return
			default:
				_ = os.Truncate(path, size)
			}
		}
	}()
	for range 100 {
		dst := t.TempDir()
		must(t, extract(t, bytes.NewReader(write(t, src, WriteOptions{})), dst, ExtractOptions{}))
		if got := tree(t, dst)["app/b"].body; got != "after" {
			t.Fatalf("the file behind it reads %q", got)
		}
	}
	close(stop)
	<-stopped
}

func TestDestination(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "file", "x", 0o644)
	must(t, os.Mkdir(filepath.Join(dir, "there"), 0o755))
	must(t, unix.Mkfifo(dir+"/pipe", 0o644))
	for name, target := range map[string]string{"toFile": "file", "toThere": "there", "toNone": "none"} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	tests := []struct {
		path, name  string
		dir, rename string
		fails       bool
	}{
		{"there", "src", "there", "src", false},
		{"there/", "src", "there", "src", false},
		{"there", ".", "there", "", false},
		{"new", "src", "", "new", false},
		{"new2", ".", "new2", "", false},
		{"new/", "src", "", "", true},
		{"new3/", ".", "new3", "", false},
		{"new4/.", ".", "new4", "", false},
		{"none/..", ".", "", "", true},
		{"toFile", "src", "", "toFile", false},
		{"toThere", "src", "there", "src", false},
		{"toNone", "src", "", "toNone", false},
		{"toNone", ".", "", "", true},
		{"pipe", "src", "", "pipe", false},
		{"file", "src", "", "file", false},
		{"file/", "src", "", "", true},
		{"file", ".", "", "", true},
		{"file/below", "src", "", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.name, func(t *testing.T) {
			root, rename, err := Destination(dir+"/"+tt.path, tt.name, open)
			if tt.fails {
				if err == nil {
					t.Fatalf("it goes to %s as %q", root.Name(), rename)
				}
				return
			}
			must(t, err)
			defer root.Close()
			if got, want := at(t, root), filepath.Join(dir, tt.dir); got != want || rename != tt.rename {
				t.Errorf("%s, %q; want %s, %q", got, rename, want, tt.rename)
			}
		})
	}
}

// TestDestinationSwapped checks that a directory that is replaced by a link after it was opened
// does not lead a write to the link's target.
func TestDestinationSwapped(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(dir+"/sub", 0o755))
	swapping := func(path string) (*os.Root, error) {
		root, err := open(path)
		if err == nil {
			must(t, os.Rename(dir+"/sub", dir+"/aside"))
			must(t, os.Symlink(outside, dir+"/sub"))
		}
		return root, err
	}
	root, rename, err := Destination(dir+"/sub/new", ".", swapping)
	must(t, err)
	defer root.Close()
	if got := at(t, root); got != dir+"/aside/new" || rename != "" {
		t.Errorf("%s, %q", got, rename)
	}
	if made, err := os.ReadDir(outside); err != nil || len(made) > 0 {
		t.Errorf("outside are %v, %v", made, err)
	}
}

func open(dir string) (*os.Root, error) { return os.OpenRoot(dir + "/") }

// at returns the current path of an open directory.
func at(t *testing.T, root *os.Root) string {
	t.Helper()
	fd, err := dirHandle(root)
	must(t, err)
	defer unix.Close(fd)
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	must(t, err)
	return path
}
