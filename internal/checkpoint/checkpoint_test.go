package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/merge"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// box is a directory with its checkpoints.
type box struct {
	t   testing.TB
	dir string
	Shelf
}

func newBox(t testing.TB) *box {
	t.Helper()
	top := t.TempDir()
	b := &box{t, filepath.Join(top, "home"), Shelf{filepath.Join(top, "checkpoints")}}
	must(t, os.Mkdir(b.dir, 0o755))
	lock, err := b.Lock()
	must(t, err)
	t.Cleanup(lock.Unlock)
	return b
}

func (b *box) sources() []Source { return []Source{{Name: "home", Dir: b.dir}} }

func (b *box) path(name string) string { return filepath.Join(b.dir, name) }

func (b *box) write(name, text string) {
	b.t.Helper()
	must(b.t, os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	must(b.t, os.WriteFile(b.path(name), []byte(text), 0o644))
}

// settle waits until the files written so far can be told from later ones.
func (b *box) settle() {
	b.t.Helper()
	var st unix.Stat_t
	for newest := int64(0); ; {
		must(b.t, filepath.WalkDir(b.dir, func(p string, _ fs.DirEntry, _ error) error {
			if unix.Lstat(p, &st) == nil {
				newest = max(newest, st.Ctim.Nano())
			}
			return nil
		}))
		var now unix.Timespec
		must(b.t, unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now))
		if now.Nano() > newest+int64(freshTime) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (b *box) keep(name string) Point {
	b.t.Helper()
	m, err := b.Begin(name, "test")
	must(b.t, err)
	p, err := m.End(m.Take(b.sources()))
	must(b.t, err)
	return p
}

func (b *box) back(p Point) {
	b.t.Helper()
	skipped, err := b.Restore(p, b.sources(), func() error { return nil })
	must(b.t, err)
	if len(skipped) > 0 {
		b.t.Errorf("not put back: %q", skipped)
	}
}

// look describes a tree.
func look(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	links := map[uint64]string{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(p, &st)
		}
		if errors.Is(err, unix.EACCES) { // no user may look
			lines = append(lines, fmt.Sprintf("%q is hidden", filepath.Base(p)))
			return nil
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		line := fmt.Sprintf("%q %o", rel, st.Mode)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data, err := os.ReadFile(p)
			if err != nil && os.Geteuid() == 0 {
				return err
			}
			line += fmt.Sprintf(" %d %x", st.Mtim.Nano(), bytes.TrimRight(data, "\x00"))
			if len(data) > 100 {
				line = fmt.Sprintf("%q %o %d bytes", rel, st.Mode, len(data))
			}
			if st.Nlink > 1 {
				if links[st.Ino] == "" {
					links[st.Ino] = rel
				}
				line += " = " + links[st.Ino]
			}
		case unix.S_IFLNK:
			to, _ := os.Readlink(p)
			line += " -> " + to
		case unix.S_IFDIR:
			line += fmt.Sprint(" ", st.Mtim.Nano())
		case unix.S_IFCHR:
			line += fmt.Sprint(" ", st.Rdev)
		}
		v := make([]byte, 100)
		if n, err := unix.Lgetxattr(p, "user.test", v); err == nil {
			line += " " + string(v[:n])
		}
		lines = append(lines, line)
		return nil
	}))
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// everything makes all kinds of files.
func (b *box) everything() {
	t := b.t
	t.Helper()
	b.write("a/file", "one")
	b.write("a/empty", "")
	b.write("a/script", "#!/bin/sh")
	must(t, unix.Chmod(b.path("a/script"), 0o4755))
	b.write("a/b/c/deep", "deep")
	b.write("\xff\n\x1b[2J", "hostile")
	b.write("big", strings.Repeat("0123456789abcdef", 10_000))
	must(t, os.Link(b.path("a/file"), b.path("z-link")))
	must(t, os.Symlink("/etc/shadow", b.path("a/outside")))
	must(t, os.Symlink("a", b.path("dirlink")))
	must(t, unix.Mkfifo(b.path("pipe"), 0o640))
	must(t, os.Truncate(b.path("a/empty"), 3<<20))
	f, err := os.OpenFile(b.path("holes"), os.O_CREATE|os.O_RDWR, 0o600)
	must(t, err)
	for _, at := range []int64{1 << 20, 5 << 20} {
		_, err = f.WriteAt([]byte("data"), at)
		must(t, err)
	}
	must(t, f.Truncate(9<<20))
	must(t, f.Close())
	b.write("hidden/first", "of two names")
	must(t, os.Link(b.path("hidden/first"), b.path("z-second")))
	must(t, os.Chmod(b.path("hidden"), 0o644))
	must(t, os.Mkdir(b.path("locked"), 0o755))
	b.write("locked/in", "x")
	if err := unix.Setxattr(b.path("a/file"), "user.test", []byte("attribute"), 0); err == nil {
		must(t, unix.Setxattr(b.path("a"), "user.test", []byte("of a directory"), 0))
	}
	if err := unix.Mknod(b.path("whiteout"), unix.S_IFCHR, 0); err != nil {
		t.Logf("no marks of deletions here: %v", err)
	}
	for _, p := range []string{"a/file", "big", "a/b"} {
		must(t, os.Chtimes(b.path(p), time.Time{}, time.Unix(1_000_000_000, 123_456_789)))
	}
	must(t, os.Chmod(b.path("locked/in"), 0o000))
	if os.Geteuid() == 0 {
		must(t, os.Chmod(b.path("locked"), 0o000))
	}
}

// TestRestore checks that a restore undoes anything that a program does to its directory.
func TestRestore(t *testing.T) {
	b := newBox(t)
	t.Cleanup(func() { _ = os.Chmod(b.path("locked"), 0o700); _ = os.Chmod(b.path("hidden"), 0o700) })
	b.everything()
	b.settle()
	want := look(t, b.dir)
	one := b.keep("one")
	if one.Left != 0 || one.Size < 160_000 || one.Size > 300_000 {
		t.Errorf("%+v", one)
	}
	for name, change := range map[string]func(){
		"nothing":     func() {},
		"all is gone": func() { b.empty() },
		"kinds swapped": func() {
			b.empty()
			b.write("a", "file")
			b.write("big/dir", "x")
			b.write("pipe", "no pipe")
			b.write("dirlink/x", "")
		},
		"one changed": func() { must(t, os.WriteFile(b.path("a/b/c/deep"), []byte("otherwise"), 0o600)) },
		"same size":   func() { must(t, os.WriteFile(b.path("a/b/c/deep"), []byte("DEEP"), 0o600)) },
		"in the way of what is made": func() {
			b.empty()
			for i := range 50 {
				b.write(fmt.Sprintf("%s%d/x", tempPrefix, i), "x")
			}
		},
		"links lead out": func() { b.empty(); must(t, os.Symlink(t.TempDir(), b.path("a"))) },
		"more": func() {
			b.write("a/new", "x")
			b.write("new/dir/file", "x")
			must(t, os.Chmod(b.path("new/dir"), 0))
		},
		"a link broken": func() { must(t, os.Remove(b.path("z-link"))); b.write("z-link", "one") },
		"modes":         func() { must(t, os.Chmod(b.path("a"), 0)); must(t, os.Chmod(b.path("big"), 0o777)) },
	} {
		t.Run(name, func(t *testing.T) {
			change()
			b.back(one)
			if got := look(t, b.dir); got != want {
				t.Errorf("it was\n%s\n\nand is\n%s", want, got)
			}
		})
	}
	other := filepath.Join(t.TempDir(), "other")
	must(t, b.Fill(one, []Source{{Name: "home", Dir: other}}))
	t.Cleanup(func() { must(t, store.RemoveTree(other)) })
	if got := look(t, other); got != want {
		t.Errorf("it was\n%s\n\nand another is\n%s", want, got)
	}
}

func (b *box) empty() {
	b.t.Helper()
	_ = os.Chmod(b.path("locked"), 0o700)
	_ = os.Chmod(b.path("hidden"), 0o700)
	entries, err := os.ReadDir(b.dir)
	must(b.t, err)
	for _, e := range entries {
		must(b.t, os.RemoveAll(b.path(e.Name())))
	}
}

// TestCostOfAChange checks that a checkpoint adds only what changed since the one before, also
// after a restore.
func TestCostOfAChange(t *testing.T) {
	b := newBox(t)
	b.write("large", strings.Repeat("x", 1<<20))
	b.write("small", "one")
	b.settle()
	one := b.keep("")
	if one.Bytes < 1<<20 || one.Name != "1" || one.Parent != 0 {
		t.Errorf("%+v", one)
	}
	b.write("small", "two")
	b.settle()
	two := b.keep("two")
	if two.Bytes > 10<<10 || two.Size < 1<<20 || two.Parent != one.Number {
		t.Errorf("%+v", two)
	}
	b.back(one)
	three := b.keep("three")
	if three.Bytes > 10<<10 || three.Parent != one.Number {
		t.Errorf("%+v", three)
	}
	b.back(two)
	if data, err := os.ReadFile(b.path("small")); err != nil || string(data) != "two" {
		t.Errorf("%q, %v", data, err)
	}
	list, err := b.changes(one, two)
	if err != nil || len(list) != 1 || list[0] != (merge.Change{Tree: "home", Path: "small", Kind: merge.Modified}) {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := b.changes(one, three); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func (b *box) changes(from, to Point) ([]merge.Change, error) {
	b.t.Helper()
	x, err := b.Trees(from)
	must(b.t, err)
	y, err := b.Trees(to)
	must(b.t, err)
	p := b.Packs()
	defer p.Close()
	return merge.Compare(x, y, p)
}

// TestWrittenAtTheSameTime checks that a write shortly after a checkpoint, which gets the same
// time, is not taken for the earlier content.
func TestWrittenAtTheSameTime(t *testing.T) {
	b := newBox(t)
	for i := range 50 {
		b.write("file", fmt.Sprintf("before %03d", i))
		one := b.keep("")
		b.write("file", fmt.Sprintf("after_ %03d", i))
		two := b.keep("")
		if list, err := b.changes(one, two); err != nil || len(list) != 1 {
			t.Fatalf("round %d: %v, %v", i, list, err)
		}
	}
}

// TestPass checks that pass does not wait for a few restored files, which then count as possibly
// changed, and that it waits for the clock for many, or large ones.
func TestPass(t *testing.T) {
	var clock unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &clock))
	never := clock.Nano() + int64(time.Hour)
	for _, x := range []struct {
		name       string
		files      int
		size       int64
		last       int64
		fresh, few bool
	}{
		{"long ago", 1, 1, clock.Nano() - 1, false, true},
		{"few", fewFiles, fewBytes / fewFiles, never, true, true},
		{"many", fewFiles + 1, 0, clock.Nano(), false, false},
		{"large", 1, fewBytes + 1, clock.Nano(), false, false},
		{"many, by another clock", fewFiles + 1, 0, never, true, false},
	} {
		now := placed{last: x.last}
		for range x.files {
			now.files = append(now.files, &manifest.Entry{Size: x.size})
		}
		if now.areFew() != x.few {
			t.Errorf("%s: few: %v", x.name, now.areFew())
		}
		must(t, now.awaitClock())
		for _, e := range now.files {
			if e.Seen.Fresh != x.fresh {
				t.Fatalf("%s: fresh: %v", x.name, e.Seen.Fresh)
			}
		}
	}
}

// TestWarm checks that a file kept while the sandbox runs is kept again if it changes.
func TestWarm(t *testing.T) {
	b := newBox(t)
	b.write("still", strings.Repeat("x", 1<<20))
	b.write("changes", "one")
	b.settle()
	m, err := b.Begin("", "test")
	must(t, err)
	must(t, m.Warm(b.sources()))
	b.write("changes", "two")
	before := m.pack.DiskSize()
	err = m.Take(b.sources())
	if added := m.pack.DiskSize() - before; added > 1<<10 {
		t.Errorf("%d bytes were kept while it stood still", added)
	}
	p, err := m.End(err)
	must(t, err)
	b.write("changes", "three")
	b.back(p)
	if data, err := os.ReadFile(b.path("changes")); err != nil || string(data) != "two" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestTakeAgain checks that a second Take, after a sandbox ended meanwhile, replaces the first
// one, also on the disk.
func TestTakeAgain(t *testing.T) {
	b := newBox(t)
	b.write("a", "one")
	b.write("gone", "before")
	m, err := b.Begin("twice", "test")
	must(t, err)
	must(t, m.Take(b.sources()))
	b.write("a", "another")
	must(t, os.Remove(b.path("gone")))
	p, err := m.End(m.Take(b.sources()))
	must(t, err)
	want := look(t, b.dir)
	b.empty()
	b.back(p)
	if got := look(t, b.dir); got != want {
		t.Errorf("put back:\n%s\nwant:\n%s", got, want)
	}
}

// TestMemoryOfTheKilled checks that a later command gets fresh directories for memory: a keeper
// may still be writing for a command that was killed.
func TestMemoryOfTheKilled(t *testing.T) {
	b := newBox(t)
	killed, err := b.Begin("", "test")
	must(t, err)
	passing, err := b.Passing()
	must(t, err)
	next, err := b.Begin("", "test") // sweeps
	must(t, err)
	again, err := b.Passing()
	must(t, err)
	if next.MemoryPlace() == killed.MemoryPlace() || again == passing {
		t.Errorf("another's place is taken again: %s, %s", next.MemoryPlace(), again)
	}
	for _, dir := range []string{killed.dir, passing} {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	_, err = next.End(errors.New("given up"))
	if err == nil {
		t.Error("no error")
	}
}

// TestRemove checks that contents stay as long as a checkpoint has them, and no longer.
func TestRemove(t *testing.T) {
	b := newBox(t)
	b.write("file", "one")
	b.settle()
	one := b.keep("one")
	two := b.keep("two") // its contents are in the first one's pack
	must(t, b.Remove(one))
	if err := b.Remove(one); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("%v", err)
	}
	b.write("file", "changed")
	b.back(two)
	if data, err := os.ReadFile(b.path("file")); err != nil || string(data) != "one" {
		t.Errorf("%q, %v", data, err)
	}
	must(t, b.Remove(two))
	if left, err := os.ReadDir(filepath.Join(b.Dir, packsName)); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	three := b.keep("")
	if three.Number != 3 {
		t.Errorf("a number was given twice: %+v", three)
	}
	// Contents that were known to be in the removed checkpoints are kept again.
	b.write("file", "changed once more")
	b.back(three)
	if data, err := os.ReadFile(b.path("file")); err != nil || string(data) != "one" {
		t.Errorf("%q, %v", data, err)
	}
	must(t, b.Remove(three))
	if p := b.keep(""); p.Number != 4 {
		t.Errorf("a number was given twice: %+v", p)
	}
}

func TestNames(t *testing.T) {
	b := newBox(t)
	b.keep("one")
	if _, err := b.Begin("one", ""); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%v", err)
	}
	for _, ref := range []string{"one", "1"} {
		if p, err := b.Find(ref); err != nil || p.Number != 1 {
			t.Errorf("%s: %+v, %v", ref, p, err)
		}
	}
	if _, err := b.Find("two"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"1", "99999999999999999999", "", "-1", "a/b", "..", "a\n", "a_b", "a"} {
		err := CheckName(bad)
		if err == nil {
			t.Errorf("%q is a name", bad)
		}
		if hint := spec.Hint(err); !strings.Contains(hint, "2 to 63 letters, digits, '-' and '.'") || strings.Contains(hint, "underscore") {
			t.Errorf("%q: %s", bad, hint)
		}
	}
}

// TestInterrupted checks that an interrupted restore is detected, and finished later.
func TestInterrupted(t *testing.T) {
	b := newBox(t)
	b.write("file", "one")
	b.settle()
	one := b.keep("one")
	b.write("file", "two")
	full := errors.New("the disk is full")
	if _, err := b.Restore(one, b.sources(), func() error { return full }); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if _, err := b.Begin("", ""); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a checkpoint of half of it: %v", err)
	}
	if err := b.Remove(one); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("it was removed: %v", err)
	}
	back, err := b.Interrupted()
	if err != nil || back == nil || back.Point.Number != one.Number || !slices.Equal(back.Trees, []string{"home"}) {
		t.Fatalf("%+v, %v", back, err)
	}
	b.back(back.Point)
	if back, err := b.Interrupted(); back != nil || err != nil {
		t.Errorf("%+v, %v", back, err)
	}
}

// TestWithout checks that excluded paths are not kept, and stay as they are.
func TestWithout(t *testing.T) {
	b := newBox(t)
	b.write("a/kept", "one")
	b.write("a/state/secret", "SECRET")
	b.settle()
	sources := []Source{{Name: "home", Dir: b.dir, Without: []string{"a/state", "later"}}}
	m, err := b.Begin("", "")
	must(t, err)
	p, err := m.End(m.Take(sources))
	must(t, err)
	if data, err := os.ReadFile(b.packPath(p.Number)); err != nil || bytes.Contains(data, []byte("SECRET")) {
		t.Errorf("%q, %v", data, err)
	}
	b.write("a/kept", "two")
	b.write("a/state/secret", "new")
	b.write("later/x", "new")
	_, err = b.Restore(p, sources, func() error { return nil })
	must(t, err)
	for name, want := range map[string]string{"a/kept": "one", "a/state/secret": "new", "later/x": "new"} {
		if data, err := os.ReadFile(b.path(name)); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

// TestFailed checks that a failed checkpoint leaves nothing.
func TestFailed(t *testing.T) {
	b := newBox(t)
	m, err := b.Begin("", "")
	must(t, err)
	boom := errors.New("boom")
	b.write("file", "which is on its way to the disk")
	must(t, m.Take(b.sources()))
	if _, err := m.End(boom); !errors.Is(err, boom) {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(b.Dir, "*", "*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if list, err := b.List(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestDeep checks that a tree that is too deep is kept down to the limit, and that the rest stays
// where it is.
func TestDeep(t *testing.T) {
	b := newBox(t)
	d, err := os.OpenRoot(b.dir)
	must(t, err)
	for range maxDepth + 10 {
		must(t, d.Mkdir("x", 0o700))
		next, err := d.OpenRoot("x")
		must(t, err)
		d.Close()
		d = next
	}
	d.Close()
	deepest := func() (n int) {
		d, err := os.OpenRoot(b.dir)
		for err == nil {
			n++
			var next *os.Root
			next, err = d.OpenRoot("x")
			d.Close()
			d = next
		}
		return n
	}
	want := deepest()
	p := b.keep("")
	if p.Left != 1 {
		t.Errorf("%+v", p)
	}
	b.write("later", "x")
	b.back(p)
	if got := deepest(); got != want {
		t.Errorf("there are %d directories, and were %d", got, want)
	}
	t.Cleanup(func() { must(t, store.RemoveTree(b.dir)) })
}

// TestDamaged checks that a checkpoint whose contents were cut is refused before anything is changed.
func TestDamaged(t *testing.T) {
	b := newBox(t)
	b.write("file", "one")
	p := b.keep("")
	must(t, os.Truncate(b.packPath(p.Number), 1))
	must(t, os.Remove(b.path("file")))
	if _, err := b.Restore(p, b.sources(), func() error { return nil }); !errors.Is(err, manifest.ErrDamaged) {
		t.Error(err)
	}
	if back, err := b.Interrupted(); back != nil || err != nil {
		t.Errorf("it is on its way back to what cannot be put back: %v, %v", back, err)
	}
}

// TestReadyLooksForDirectories checks that a missing directory is reported before anything is
// begun, unless it is one of ours.
func TestReadyLooksForDirectories(t *testing.T) {
	b := newBox(t)
	b.write("file", "one")
	p := b.keep("")
	must(t, os.RemoveAll(b.dir))
	sources := b.sources()
	sources[0].Shared = true
	if _, err := b.Restore(p, sources, func() error { return nil }); !errors.Is(err, spec.ErrNotFound) {
		t.Error(err)
	}
	must(t, b.Whole())
	b.back(p)
}

// TestDamagedAbout checks that a checkpoint with an unreadable description does not hide the
// others or remove their contents, and that it can be removed.
func TestDamagedAbout(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"cut":   func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
		"null":  func(path string) error { return os.WriteFile(path, []byte("null"), 0o600) },
		"other": func(path string) error { return os.WriteFile(path, []byte(`{"version":1,"number":2}`), 0o600) },
		"gone":  os.Remove,
	} {
		t.Run(name, func(t *testing.T) { damagedAbout(t, damage) })
	}
}

func damagedAbout(t *testing.T, damage func(string) error) {
	b := newBox(t)
	b.write("file", "one")
	one := b.keep("one")
	b.write("file", "two")
	two := b.keep("two")
	b.write("file", "three")
	three := b.keep("three")
	must(t, damage(filepath.Join(b.Path(three.Number), aboutName)))
	list, damaged, err := b.All()
	must(t, err)
	if len(list) != 2 || len(damaged) != 1 || damaged[0].Number != three.Number || damaged[0].Why == nil {
		t.Errorf("%v, %v", list, damaged)
	}
	if _, err := b.Find("3"); !errors.Is(err, spec.ErrNotFound) || spec.Hint(err) == "" {
		t.Errorf("it is found: %v", err)
	}
	b.write("file", "four")
	m, err := b.Begin("", "test") // its parent is the damaged one
	must(t, err)
	must(t, m.Take(b.sources()))
	same, err := m.Unchanged()
	four, err := m.End(err)
	must(t, err)
	if four.Number <= three.Number || same {
		t.Errorf("%d comes after %d, and is the same: %v", four.Number, three.Number, same)
	}
	must(t, b.Remove(two))
	for _, p := range []Point{two, three} { // it is unknown which checkpoint has their contents
		if _, err := os.Lstat(b.packPath(p.Number)); err != nil {
			t.Error(err)
		}
	}
	b.back(one)
	p, err := b.FindAny("3")
	must(t, err)
	must(t, b.Remove(p))
	if _, damaged, err := b.All(); err != nil || len(damaged) > 0 {
		t.Errorf("%v, %v", damaged, err)
	}
	for _, p := range []Point{two, three} {
		if _, err := os.Lstat(b.packPath(p.Number)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("contents that nobody needs: %v", err)
		}
	}
}

// TestRestoreShut checks that a directory that a program in the sandbox has shut is restored like
// any other.
func TestRestoreShut(t *testing.T) {
	b := newBox(t)
	b.write("file", "one")
	must(t, os.Chmod(b.dir, 0o000))
	t.Cleanup(func() { _ = os.Chmod(b.dir, 0o700) })
	p := b.keep("")
	must(t, os.Chmod(b.dir, 0o700))
	b.write("file", "two")
	b.back(p)
	must(t, b.Whole())
	must(t, os.Chmod(b.dir, 0o700))
	if text, err := os.ReadFile(b.path("file")); err != nil || string(text) != "one" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestBefore checks that Before returns a checkpoint's parent, or else the nearest one before
// that.
func TestBefore(t *testing.T) {
	b := newBox(t)
	one, two, three := b.keep(""), b.keep(""), b.keep("")
	b.back(two)
	four := b.keep("") // from two: three is on another branch
	want := func(number int64) {
		t.Helper()
		if from, err := b.Before(four); err != nil || from.Number != number {
			t.Errorf("it came from %d, %v, want %d", from.Number, err, number)
		}
	}
	want(two.Number)
	must(t, b.Remove(two))
	want(one.Number)
	must(t, b.Remove(one))
	want(0)
	if from, err := b.Before(three); err != nil || from.Number != 0 {
		t.Errorf("%+v, %v", from, err)
	}
}

// TestDamagedNumber checks that the number of a damaged checkpoint is not used again, whatever
// else is lost.
func TestDamagedNumber(t *testing.T) {
	b := newBox(t)
	p := b.keep("")
	must(t, os.WriteFile(filepath.Join(b.Path(p.Number), aboutName), nil, 0o600))
	must(t, os.Remove(filepath.Join(b.Dir, headName)))
	if next := b.keep(""); next.Number != p.Number+1 {
		t.Errorf("it is %d", next.Number)
	}
}

// TestInterruptedToDamaged checks that after an interrupted restore of a checkpoint that is now
// damaged, the user can restore another one.
func TestInterruptedToDamaged(t *testing.T) {
	b := newBox(t)
	b.write("file", "one")
	one := b.keep("one")
	b.write("file", "two")
	two := b.keep("two")
	full := errors.New("the disk is full")
	if _, err := b.Restore(one, b.sources(), func() error { return full }); !errors.Is(err, full) {
		t.Fatal(err)
	}
	must(t, os.WriteFile(filepath.Join(b.Path(one.Number), aboutName), nil, 0o600))
	if back, err := b.Interrupted(); err != nil || back == nil || back.Point.Number != 0 {
		t.Errorf("%+v, %v", back, err)
	}
	b.back(two)
	must(t, b.Whole())
}

// TestShared checks a directory that is shared with the host, where others mount file systems,
// own files, and listen at sockets. None of that is in a checkpoint, and none of it is removed.
func TestShared(t *testing.T) {
	b := newBox(t)
	sources := func() []Source { return []Source{{Name: "workspace/0", Dir: b.dir, Shared: true}} }
	b.write("file", "one")
	b.settle()
	m, err := b.Begin("", "")
	must(t, err)
	p, err := m.End(m.Take(sources()))
	must(t, err)
	b.write("file", "two")
	b.write("later/file", "x")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: b.path("later/socket")}))
	mounted := false
	must(t, os.MkdirAll(b.path("mnt"), 0o755))
	if err := unix.Mount(b.t.TempDir(), b.path("mnt"), "", unix.MS_BIND, ""); err == nil {
		mounted = true
		t.Cleanup(func() { _ = unix.Unmount(b.path("mnt"), unix.MNT_DETACH) })
		b.write("mnt/precious", "x")
	}
	before, err := b.Begin("", "before")
	must(t, err)
	must(t, before.Take(sources()))
	s := sources()
	s[0].Before = before.Tree("workspace/0")
	_, err = before.End(nil)
	must(t, err)
	b.write("saved", "while it is put back")
	skipped, err := b.Restore(p, s, func() error { return nil })
	must(t, err)
	if !slices.Equal(skipped, []string{b.path("saved")}) {
		t.Errorf("not put back: %q", skipped)
	}
	if _, err := os.Lstat(b.path("saved")); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(b.path("file")); err != nil || string(data) != "one" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := os.Lstat(b.path("later/file")); err == nil {
		t.Error("what came later is there")
	}
	if _, err := os.Lstat(b.path("later/socket")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(b.path("mnt/precious")); mounted && err != nil {
		t.Error(err)
	}
}

// TestCompareHoles checks that two files of the largest size, with hardly any data, are compared
// in no time.
func TestCompareHoles(t *testing.T) {
	b := newBox(t)
	b.write("holes", "")
	size := int64(1) << 42 // ext4 has no larger ones
	must(t, os.Truncate(b.path("holes"), size))
	one := b.keep("one")
	f, err := os.OpenFile(b.path("holes"), os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{0}, size/2)
	must(t, errors.Join(err, f.Close()))
	two := b.keep("two")
	if list, err := b.changes(one, two); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	f, err = os.OpenFile(b.path("holes"), os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{1}, size/2)
	must(t, errors.Join(err, f.Close()))
	if list, err := b.changes(one, b.keep("three")); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestUnaskedIsKeptLate checks that a checkpoint that the user did not ask for is not brought to
// the disk before it is known to be needed.
func TestUnaskedIsKeptLate(t *testing.T) {
	b := newBox(t)
	b.write("f", "1")
	for _, failed := range []error{errors.New("nothing has changed"), nil} {
		m, err := b.Begin("", "test")
		must(t, err)
		m.Point().Unasked = true
		must(t, m.Take(b.sources()))
		if m.taken != nil {
			t.Error("it is brought to the disk")
		}
		p, err := m.End(failed)
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
		if failed == nil {
			b.write("f", "2")
			b.back(p)
		}
	}
	if text, err := os.ReadFile(b.path("f")); err != nil || string(text) != "1" {
		t.Errorf("%q, %v", text, err)
	}
}
