package erofs

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/erofs"
)

// write writes a tree and opens it as gVisor does.
func write(t *testing.T, make func(w *Writer) *Node) *erofs.Image {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	must(t, err)
	w := NewWriter(f)
	must(t, w.Finish(make(w), 1_700_000_000))
	img, err := erofs.OpenImage(f)
	must(t, err)
	t.Cleanup(img.Close)
	return img
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dir(entries map[string]*Node) *Node {
	return &Node{Mode: unix.S_IFDIR | 0o755, Entries: entries}
}

func inode(t *testing.T, img *erofs.Image, path ...string) erofs.Inode {
	t.Helper()
	nid := img.RootNid()
	for _, name := range path {
		at, err := img.Inode(nid)
		must(t, err)
		if nid, err = at.Lookup(name); err != nil {
			t.Fatalf("%s in %v: %v", name, path, err)
		}
	}
	at, err := img.Inode(nid)
	must(t, err)
	return at
}

func content(t *testing.T, in erofs.Inode) []byte {
	t.Helper()
	var out []byte
	ranges, err := in.DataRanges()
	must(t, err)
	for _, r := range ranges {
		out = append(out, r.Bytes...)
	}
	return out
}

// TestFiles checks that a file of any size is read back unchanged, and begins at a page
// boundary.
func TestFiles(t *testing.T) {
	sizes := []int{0, 1, 63, 4095, 4096, 4097, 3 * 4096, 100_000}
	data := map[int][]byte{}
	img := write(t, func(w *Writer) *Node {
		kids := map[string]*Node{}
		for i, size := range sizes {
			data[size] = make([]byte, size)
			_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(data[size])
			d, err := w.Add(bytes.NewReader(data[size]))
			must(t, err)
			kids[fmt.Sprint(size)] = &Node{Mode: unix.S_IFREG | unix.S_ISUID | 0o641, UID: 70000, GID: 4_000_000_000, Mtime: 1234567890, Data: d}
		}
		return dir(kids)
	})
	for _, size := range sizes {
		in := inode(t, img, fmt.Sprint(size))
		if got := content(t, in); !bytes.Equal(got, data[size]) {
			t.Errorf("%d bytes came back as %d others", size, len(got))
		}
		if in.Mode() != unix.S_IFREG|unix.S_ISUID|0o641 || in.UID() != 70000 || in.GID() != 4_000_000_000 || in.Mtime() != 1234567890 || in.Nlink() != 1 {
			t.Errorf("%d: mode %o, owner %d:%d, time %d, %d links", size, in.Mode(), in.UID(), in.GID(), in.Mtime(), in.Nlink())
		}
		if at, err := in.DataOffset(); err != nil || at%BlockSize != 0 {
			t.Errorf("%d: at %d, %v", size, at, err)
		}
	}
}

// TestDirectories checks that directories of any size are sorted, and that every name in them is found.
func TestDirectories(t *testing.T) {
	for _, count := range []int{0, 1, 2, 100, 150, 200, 5000} {
		img := write(t, func(*Writer) *Node {
			kids := map[string]*Node{}
			for i := range count {
				kids[fmt.Sprintf("%d-%s", i, strings.Repeat("n", i%200))] = dir(nil)
			}
			for _, odd := range []string{"-", "!", "...", "ü", strings.Repeat("x", MaxName)} {
				kids[odd] = dir(nil)
			}
			return dir(map[string]*Node{"d": dir(kids)})
		})
		in := inode(t, img, "d")
		n, last := 0, ""
		must(t, in.IterDirents(func(name string, typ uint8, nid uint64) error {
			if n > 0 && name <= last || typ != 2 {
				t.Errorf("%q comes after %q, type %d", name, last, typ)
			}
			if found, err := in.Lookup(name); err != nil || found != nid {
				t.Errorf("%q: %d, %v", name, found, err)
			}
			n, last = n+1, name
			return nil
		}))
		if want := count + 5 + 2; n != want || int(in.Nlink()) != want {
			t.Errorf("%d names and %d links instead of %d", n, in.Nlink(), want)
		}
		if _, err := in.Lookup("nobody"); err == nil {
			t.Error("a name was found that there is not")
		}
	}
}

// TestRoots checks that a root directory of any size is found. If its end does not fit next
// to the superblock, the inode moves to the next block.
func TestRoots(t *testing.T) {
	for size := 3900; size <= 4200; size += 4 {
		img := write(t, func(*Writer) *Node {
			kids := map[string]*Node{}
			left := size - 2*direntSize - len("...") // with . and ..
			for i := 0; left > direntSize+4; i++ {
				n := min(left-direntSize, 100)
				if rest := left - direntSize - n; rest > 0 && rest <= direntSize+4 {
					n -= direntSize + 4
				}
				kids[fmt.Sprintf("%04d%s", i, strings.Repeat("n", max(n-4, 0)))] = dir(nil)
				left -= direntSize + max(n, 4)
			}
			return dir(kids)
		})
		if in := inode(t, img); !in.IsDir() {
			t.Fatalf("%d: the root is not a directory", size)
		}
		inode(t, img, "..")
	}
}

func TestLinks(t *testing.T) {
	targets := []string{"a", "../x/y", strings.Repeat("l", 4000), strings.Repeat("m", 4032), strings.Repeat("n", 4033), strings.Repeat("o", MaxLink)}
	img := write(t, func(w *Writer) *Node {
		d, err := w.Add(strings.NewReader("shared"))
		must(t, err)
		file := &Node{Mode: unix.S_IFREG | 0o644, Data: d}
		kids := map[string]*Node{"one": file, "two": file, "sub": dir(map[string]*Node{"three": file})}
		for i, target := range targets {
			kids[fmt.Sprint(i)] = &Node{Mode: unix.S_IFLNK | 0o777, Target: target}
		}
		return dir(kids)
	})
	for i, want := range targets {
		in := inode(t, img, fmt.Sprint(i))
		if got, err := in.Readlink(); err != nil || got != want {
			t.Errorf("%d bytes: %d, %v", len(want), len(got), err)
		}
	}
	one, three := inode(t, img, "one"), inode(t, img, "sub", "three")
	if one.Nid() != three.Nid() || one.Nlink() != 3 || string(content(t, three)) != "shared" {
		t.Errorf("%d and %d, %d links", one.Nid(), three.Nid(), one.Nlink())
	}
	sub := inode(t, img, "sub")
	up, err := sub.Lookup("..")
	if root := inode(t, img); err != nil || up != img.RootNid() || root.Nlink() != 3 {
		t.Errorf("%d, %v, %d links", up, err, root.Nlink())
	}
}

// TestDrop checks that a dropped file takes no space, and that the others stay.
func TestDrop(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	must(t, err)
	defer f.Close()
	w := NewWriter(f)
	big, err := w.Add(io.LimitReader(rand.NewChaCha8([32]byte{}), 8<<20))
	must(t, err)
	small, err := w.Add(strings.NewReader("stays"))
	must(t, err)
	w.Drop(big)
	must(t, w.Finish(dir(map[string]*Node{"f": {Mode: unix.S_IFREG, Data: small}}), 0))
	var st unix.Stat_t
	must(t, unix.Fstat(int(f.Fd()), &st))
	if st.Blocks*512 > 1<<20 {
		t.Skipf("this file system has no holes: %d bytes", st.Blocks*512)
	}
	if got, err := io.ReadAll(w.Open(small)); err != nil || string(got) != "stays" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestZeros checks that zeros take no space and are read back.
func TestZeros(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	must(t, err)
	defer f.Close()
	w := NewWriter(f)
	d, err := w.Add(io.MultiReader(strings.NewReader("begin"), io.LimitReader(zeros{}, 64<<20), strings.NewReader("end")))
	must(t, err)
	must(t, w.Finish(dir(map[string]*Node{"f": {Mode: unix.S_IFREG, Data: d}}), 0))
	var st unix.Stat_t
	must(t, unix.Fstat(int(f.Fd()), &st))
	got, err := io.ReadAll(w.Open(d))
	if err != nil || len(got) != 64<<20+8 || string(got[:6]) != "begin\x00" || !bytes.HasSuffix(got, []byte("\x00end")) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if st.Blocks*512 > 8<<20 {
		t.Errorf("%d bytes on the disk", st.Blocks*512)
	}
}
