package checkpoint

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
)

// sharedBox is a directory of the host with its checkpoints.
type sharedBox struct{ *box }

func (b sharedBox) sources() []Source {
	return []Source{{Name: "workspace/0", Dir: b.dir, Shared: true}}
}

func (b sharedBox) keep() Point {
	b.t.Helper()
	b.settle()
	m, err := b.Begin("", "test")
	must(b.t, err)
	p, err := m.End(m.Take(b.sources()))
	must(b.t, err)
	return p
}

// back makes a checkpoint, calls meanwhile, in which another program writes, and restores p. It
// returns the paths that could not be put back.
func (b sharedBox) back(p Point, meanwhile func()) []string {
	b.t.Helper()
	b.settle()
	m, err := b.Begin("", "before")
	must(b.t, err)
	must(b.t, m.Take(b.sources()))
	s := b.sources()
	s[0].Before = m.Tree("workspace/0")
	_, err = m.End(nil)
	must(b.t, err)
	meanwhile()
	skipped, err := b.Restore(p, s, func() error { return nil })
	must(b.t, err)
	return skipped
}

func (b sharedBox) link(from, to string) {
	b.t.Helper()
	must(b.t, os.Link(b.path(from), b.path(to)))
}

// TestSharedLinks checks that all names of a file are put back after any change to it by one of
// them. Putting one name back does not count as another program's write to the others.
func TestSharedLinks(t *testing.T) {
	ways := map[string]func(b sharedBox){
		"written":                   func(b sharedBox) { b.write("in/b", "v2") },
		"other mode, one name less": func(b sharedBox) { must(b.t, os.Chmod(b.path("a"), 0o600)); must(b.t, os.Remove(b.path("c"))) },
		"one name more":             func(b sharedBox) { b.link("a", "0"); b.link("a", "in/0"); b.write("a", "v2") },
		"another file now":          func(b sharedBox) { must(b.t, os.Remove(b.path("a"))); b.write("a", "v2") },
		"a directory now": func(b sharedBox) {
			must(b.t, os.Remove(b.path("a")))
			must(b.t, os.Mkdir(b.path("a"), 0o755))
			b.link("c", "a/inside")
		},
	}
	for name, change := range ways {
		t.Run(name, func(t *testing.T) {
			b := sharedBox{newBox(t)}
			b.write("a", "v1")
			must(t, os.Mkdir(b.path("in"), 0o755))
			b.link("a", "in/b")
			b.link("a", "c")
			was, p := look(t, b.dir), b.keep()
			change(b)
			if skipped := b.back(p, func() {}); len(skipped) > 0 {
				t.Errorf("not put back: %q", skipped)
			}
			if is := look(t, b.dir); is != was {
				t.Errorf("was:\n%s\nis:\n%s", was, is)
			}
		})
	}
}

// TestSharedLinksWritten checks that writes to a file during a restore are kept, under any of its
// names.
func TestSharedLinksWritten(t *testing.T) {
	b := sharedBox{newBox(t)}
	b.write("a", "v1")
	b.link("a", "b")
	p := b.keep()
	b.write("a", "v2")
	skipped := b.back(p, func() { b.write("b", "theirs") })
	if !slices.Equal(skipped, []string{b.path("a")}) { // b is another name of it, as it was
		t.Errorf("not put back: %q", skipped)
	}
	if text, err := os.ReadFile(b.path("a")); err != nil || string(text) != "theirs" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestWrittenAfterUnlinking checks the same for writes after one of the names was removed.
func TestWrittenAfterUnlinking(t *testing.T) {
	b := sharedBox{newBox(t)}
	b.write("a", "v1")
	b.link("a", "b")
	b.settle()
	d, err := os.Open(b.dir)
	must(t, err)
	defer d.Close()
	var st unix.Stat_t
	must(t, unix.Lstat(b.path("b"), &st))
	e := entryOf("b", &st)
	p := &putter{src: b.sources()[0], before: map[string]*manifest.Entry{"b": &e}, placed: &placed{}}
	must(t, p.unlinking(d, "a", &st, func() error { return os.Remove(b.path("a")) }))
	must(t, unix.Lstat(b.path("b"), &st))
	if !p.mayRemove("b", &st) {
		t.Error("b may not go, although nobody has written to it")
	}
	b.write("b", "v2")
	must(t, unix.Lstat(b.path("b"), &st))
	if p.mayRemove("b", &st) {
		t.Error("b may go with what somebody has written to it")
	}
}
