package quota

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a file of n bytes.
func write(t testing.TB, path string, n int) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(strings.Repeat("x", n)), 0o600))
	return path
}

func between(t *testing.T, what string, got, least, most int64) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %d, not %d to %d", what, got, least, most)
	}
}

func TestMeter(t *testing.T) {
	dir := t.TempDir()
	one := write(t, filepath.Join(dir, "a/one"), 1<<20)
	write(t, filepath.Join(dir, "a/deep/er/two"), 1<<20)
	must(t, os.MkdirAll(filepath.Join(dir, "b"), 0o755))
	must(t, os.Link(one, filepath.Join(dir, "b", "one again")))
	must(t, os.Symlink("/", filepath.Join(dir, "b", "all the world")))
	must(t, os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "b", "a")))
	must(t, unix.Mkfifo(filepath.Join(dir, "b", "pipe"), 0o600))
	sparse, err := os.Create(filepath.Join(dir, "b", "sparse"))
	must(t, err)
	must(t, sparse.Truncate(1<<40))
	must(t, sparse.Close())

	var m Meter
	between(t, "a", m.Add(filepath.Join(dir, "a")), 2<<20, 3<<20)
	between(t, "b", m.Add(filepath.Join(dir, "b")), 0, 1<<19)
	between(t, "what is not there", m.Add(filepath.Join(dir, "c")), 0, 0)
	between(t, "a file", m.Add(filepath.Join(dir, "a/deep/er/two")), 1<<20, 2<<20)
	if m.Unread != 0 {
		t.Errorf("%d directories were not read", m.Unread)
	}
	var alone Meter
	u, err := alone.Count(t.Context(), filepath.Join(dir, "b"))
	must(t, err)
	between(t, "b, alone", u.Bytes, 1<<20, 2<<20)
	between(t, "names in b", u.Files, 6, 6)
}

// TestMeterManyLinks checks that files with several names count by their share once too
// many are remembered.
func TestMeterManyLinks(t *testing.T) {
	dir := t.TempDir()
	one := write(t, filepath.Join(dir, "one"), 1<<20)
	for i := range 3 {
		must(t, os.Link(one, fmt.Sprintf("%s-%d", one, i)))
	}
	m := Meter{seen: map[fileID]struct{}{}}
	for i := range uint64(maxSeen) {
		m.seen[fileID{dev: 1 << 60, ino: i}] = struct{}{}
	}
	between(t, "four names of one file", m.Add(dir), 1<<20, 1<<20+64<<10)
	if len(m.seen) != maxSeen {
		t.Errorf("%d files are remembered", len(m.seen))
	}
}

// chain makes nested directories, each with files made before and after the next level, and
// returns the number of names. The outermost ones are wide.
func chain(t *testing.T, dir string, depth, wide int) (names int64) {
	t.Helper()
	at, err := unix.Open(dir, openDir, 0)
	must(t, err)
	for n := range depth {
		files := 3
		if n < 10 {
			files = wide
		}
		for i := range files {
			fd, err := unix.Openat(at, fmt.Sprint("file", i), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
			must(t, err)
			unix.Close(fd)
			if i == files/2 {
				must(t, unix.Mkdirat(at, "d", 0o700))
			}
		}
		next, err := unix.Openat(at, "d", openDir, 0)
		must(t, err)
		unix.Close(at)
		at = next
		names += int64(files) + 1
	}
	unix.Close(at)
	return names
}

// removeDeep removes a tree that is deeper than paths may be long.
func removeDeep(dir string) {
	for i := 0; ; i++ {
		up := filepath.Join(filepath.Dir(dir), fmt.Sprint("up", i))
		if os.Rename(filepath.Join(dir, strings.Repeat("d/", 1000)), up) != nil {
			return
		}
		defer os.RemoveAll(up)
		dir = up
	}
}

// TestMeterDeep checks that a tree of any depth is measured completely, with few open directories. Each
// name is counted once, even if reading continued in the middle of a directory.
func TestMeterDeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	must(t, os.Mkdir(dir, 0o700))
	names := chain(t, dir, 2500, 3)
	t.Cleanup(func() { removeDeep(dir) })
	most := 0
	var m Meter
	m.Pace = func(context.Context) error {
		most = max(most, open(t))
		return nil
	}
	before := open(t)
	u, err := m.Count(t.Context(), dir)
	must(t, err)
	if u.Files != names+1 || m.Unread != 0 {
		t.Errorf("%d names were counted, and %d directories not read: there are %d", u.Files, m.Unread, names+1)
	}
	if most > before+maxOpen+2 || most < before+maxOpen {
		t.Errorf("%d descriptors were open, %d before", most, before)
	}
	if after := open(t); after > before {
		t.Errorf("%d descriptors are left, of %d", after, before)
	}
}

func TestMeterDeepAndWide(t *testing.T) {
	dir := t.TempDir()
	names := chain(t, dir, maxOpen+20, 500) // more than are read at a time
	var m Meter
	u, err := m.Count(t.Context(), dir)
	must(t, err)
	if u.Files != names+1 || m.Unread != 0 {
		t.Errorf("%d names were counted, and %d directories not read: there are %d", u.Files, m.Unread, names+1)
	}
}

// open counts the descriptors of this process.
func open(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

// TestMeterMoved checks a directory that is moved away after the walk has closed it and before the walk
// returns to it. The walk does not continue at its new place, and reports that it has not seen
// everything.
func TestMeterMoved(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "tree")
	must(t, os.Mkdir(dir, 0o700))
	chain(t, dir, 2*maxOpen, 3)
	elsewhere := filepath.Join(top, "elsewhere")
	for i := range 500 {
		write(t, filepath.Join(elsewhere, fmt.Sprint(i)), 1)
	}
	moved := filepath.Join(dir, strings.Repeat("d/", 20))
	var m Meter
	m.Pace = func(context.Context) error {
		if _, err := os.Lstat(moved); err == nil {
			must(t, os.Rename(moved, filepath.Join(elsewhere, "moved")))
		}
		return nil
	}
	before := open(t)
	u, err := m.Count(t.Context(), dir)
	must(t, err)
	if m.Unread == 0 {
		t.Error("it says that it has seen everything")
	}
	between(t, "names", u.Files, 2*maxOpen, 2*maxOpen*4+1)
	if after := open(t); after > before {
		t.Errorf("%d descriptors are left, of %d", after, before)
	}
}

// TestMeterSwapped checks a directory that is swapped for a link before it is opened.
// Nothing behind the link is counted.
func TestMeterSwapped(t *testing.T) {
	top := t.TempDir()
	dir, outside := filepath.Join(top, "tree"), filepath.Join(top, "outside")
	for i := range 1000 {
		write(t, filepath.Join(outside, fmt.Sprint(i)), 1)
	}
	const traps = 50
	for i := range traps {
		must(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint(i), "trap"), 0o700))
		must(t, os.Symlink(outside, filepath.Join(dir, fmt.Sprint(i), "link")))
	}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			at := filepath.Join(dir, fmt.Sprint(i%traps))
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(at, "trap"), unix.AT_FDCWD, filepath.Join(at, "link"), unix.RENAME_EXCHANGE)
		}
	}()
	for range 50 {
		var m Meter
		u, err := m.Count(t.Context(), dir)
		must(t, err)
		if u.Files > 1+3*traps+traps { // an exchange may show one of the two twice
			t.Errorf("%d names", u.Files)
		}
	}
	close(stop)
	<-stopped
}

func TestMeterEnds(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 * paceEvery {
		write(t, filepath.Join(dir, fmt.Sprint(i)), 1)
	}
	m := Meter{Most: 100}
	if u, err := m.Count(t.Context(), dir); !errors.Is(err, ErrMany) || u.Files != 101 {
		t.Errorf("of too many names %d were counted: %v", u.Files, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m = Meter{}
	if u, err := m.Count(ctx, dir); !errors.Is(err, context.Canceled) || u.Files > paceEvery {
		t.Errorf("of a walk that was ended %d names were counted: %v", u.Files, err)
	}
	enough := errors.New("enough")
	m = Meter{Pace: func(context.Context) error { return enough }}
	if _, err := m.Count(t.Context(), dir); !errors.Is(err, enough) {
		t.Errorf("a walk that was to end: %v", err)
	}
}

func TestMeterUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := t.TempDir()
	shut := filepath.Join(dir, "shut")
	write(t, filepath.Join(shut, "large"), 1<<20)
	must(t, os.Chmod(shut, 0))
	t.Cleanup(func() { _ = os.Chmod(shut, 0o700) })
	var m Meter
	if n := m.Add(dir); m.Unread != 1 || n > 1<<20 {
		t.Errorf("%d bytes, %d directories not read", n, m.Unread)
	}
}

// TestMeterLeaves checks that a left directory counts as one name, without anything below
// it.
func TestMeterLeaves(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "in", "left", "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	var m Meter
	m.Leave(filepath.Join(dir, "in", "left"))
	m.Leave(filepath.Join(dir, "nothing"))
	if u, err := m.Count(t.Context(), dir); err != nil || u.Files != 3 {
		t.Errorf("%d names, %v", u.Files, err)
	}
}

// TestMeterDeleted checks that a file without a name takes space as long as it is open. Files in memory,
// and the process's own, do not count.
func TestMeterDeleted(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	gone := func(path string) *os.File {
		write(t, path, 1<<20)
		f, err := os.Open(path)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		must(t, os.Remove(path))
		return f
	}
	count := func() Use {
		var m Meter
		u, err := m.CountDeleted(t.Context(), []int{os.Getpid(), os.Getpid(), 1 << 30}, own)
		must(t, err)
		if m.Unread > 0 {
			t.Errorf("%d processes were not looked at", m.Unread)
		}
		return u
	}
	before := count()
	f := gone(filepath.Join(dir, "one"))
	again, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(again) })
	gone(filepath.Join(own, "two"))
	memory, err := unix.MemfdCreate("three", unix.MFD_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { unix.Close(memory) })
	_, err = unix.Write(memory, make([]byte, 1<<20))
	must(t, err)
	there, err := os.Open(write(t, filepath.Join(dir, "four"), 1<<20))
	must(t, err)
	t.Cleanup(func() { there.Close() })
	u := count().Minus(before)
	between(t, "bytes", u.Bytes, 1<<20, 1<<20+64<<10)
	between(t, "files", u.Files, 1, 1)
}

func BenchmarkMeter(b *testing.B) {
	dir := b.TempDir()
	for i := range 10_000 {
		write(b, filepath.Join(dir, fmt.Sprint(i%100), fmt.Sprint(i)), 1)
	}
	for b.Loop() {
		var m Meter
		m.Add(dir)
	}
}
