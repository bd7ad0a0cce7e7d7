package erofs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReader checks that the reader finds what the writer wrote, in directories of any
// size.
func TestReader(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	must(t, err)
	defer f.Close()
	w := NewWriter(f)
	data, err := w.Add(bytes.NewReader([]byte("text")))
	must(t, err)
	many := map[string]*Node{}
	for i := range 3000 {
		many[fmt.Sprintf("%d-%s", i, strings.Repeat("n", i%200))] = &Node{Mode: unix.S_IFREG | 0o600, UID: uint32(i)}
	}
	link := func(to string) *Node { return &Node{Mode: unix.S_IFLNK | 0o777, Target: to} }
	long := strings.Repeat("../", 1300) + "srv"
	must(t, w.Finish(dir(map[string]*Node{
		"srv":  dir(map[string]*Node{"many": dir(many), "file": {Mode: unix.S_IFREG | 0o4755, UID: 70000, GID: 8, Mtime: 1234567890, Data: data}}),
		"home": link("srv/many/.."), "up": link("/home/many"), "long": link(long), "loop": link("loop"),
	}), 0))
	r, err := Open(f)
	must(t, err)
	n, err := r.Lookup("/srv/file")
	if err != nil || n.Mode != unix.S_IFREG|0o4755 || n.UID != 70000 || n.GID != 8 || n.Mtime != 1234567890 || n.Data != data {
		t.Errorf("%+v, %v", n, err)
	}
	if text, err := io.ReadAll(r.Content(n)); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	for name, want := range many {
		if n, err := r.Lookup("srv/many/" + name); err != nil || n.UID != want.UID {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
	if n, err := r.Lookup("long"); err != nil || n.Target != long {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := r.Lookup("/"); err != nil || !n.IsDir() {
		t.Errorf("%+v, %v", n, err)
	}
	for _, name := range []string{"nothing", "srv/file/x", "home/file", "srv/many/0-x"} {
		if n, err := r.Lookup(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
	for name, want := range map[string]string{"/home/file": "/srv/file", "/up": "/srv/many", "/long/file": "/srv/file", "/srv/./file": "/srv/file"} {
		if got, there, err := r.Resolve(name); err != nil || !there || got != want {
			t.Errorf("%s is %s, %t, %v", name, got, there, err)
		}
	}
	for name, want := range map[string]string{"/home/me": "/srv/me", "/var/lib/x": "/var/lib/x"} {
		if got, there, err := r.Resolve(name); err != nil || there || got != want {
			t.Errorf("%s is %s, %t, %v", name, got, there, err)
		}
	}
	if got, _, err := r.Resolve("/loop/x"); err == nil {
		t.Errorf("a loop leads to %s", got)
	}
	if _, err := Open(bytes.NewReader(make([]byte, 10_000))); err == nil {
		t.Error("nothing is an image")
	}
}
