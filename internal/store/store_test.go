package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/passwd"
	"github.com/bothy-dev/bothy/spec"
)

// roles are the roles of this binary when it is started again.
var roles = map[string]func(args []string) error{
	"write":    writeForEver,
	"hold":     holdLock,
	"cycle":    cycleForEver,
	"remove":   func(args []string) error { return RemoveTree(args[0]) },
	"full":     writeOnFullDisk,
	"hostile":  makeHostileTree,
	"openhere": func(args []string) error { _, err := Open(args[0]); return err },
}

// document is one whose halves must agree.
type document struct {
	N    int
	Body string
	Sum  int
}

func newDocument(n int) document {
	body := strings.Repeat(fmt.Sprint(n%10), 1+n%9000)
	return document{n, body, n + len(body)}
}

func (d document) whole() bool { return d == newDocument(d.N) }

func writeForEver(args []string) error {
	var d document
	_ = ReadJSON(args[0], &d)
	for n := d.N + 1; ; n++ {
		if err := WriteJSON(args[0], newDocument(n)); err != nil {
			return err
		}
		fmt.Println(n) // acknowledged
	}
}

// TestWriteSurvivesKill checks that after a kill of the writer at any time the document is whole,
// and not older than the last acknowledged one.
func TestWriteSurvivesKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.json")
	for round := range 20 {
		cmd := again(t, "write", path)
		var out bytes.Buffer
		cmd.Stdout = &out
		must(t, cmd.Start())
		time.Sleep(time.Duration(5+round*2) * time.Millisecond)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		var d document
		err := ReadJSON(path, &d)
		if errors.Is(err, fs.ErrNotExist) && out.Len() == 0 {
			continue // killed before its first write
		}
		must(t, err)
		if !d.whole() {
			t.Fatalf("round %d: document %d is torn", round, d.N)
		}
		var acked int
		if lines := strings.Fields(out.String()); len(lines) > 0 {
			_, _ = fmt.Sscan(lines[len(lines)-1], &acked)
		}
		if d.N < acked {
			t.Fatalf("round %d: document %d was acknowledged, %d is there", round, acked, d.N)
		}
	}
}

// TestWriteWhileReading checks that a concurrent reader never sees half a document, or none.
func TestWriteWhileReading(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.json")
	must(t, WriteJSON(path, newDocument(0)))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				var d document
				if err := ReadJSON(path, &d); err != nil || !d.whole() {
					t.Errorf("document %d: %v", d.N, err)
					return
				}
			}
		})
	}
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for n := range 30 {
				if err := WriteJSON(path, newDocument(w*1000+n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	wg.Wait()
	if left := list(t, filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left behind: %q", left)
	}
}

func list(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestDraft checks that a draft is visible once it is placed, and that a dropped one leaves
// nothing.
func TestDraft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	d, err := NewDraft(path, []byte("new"))
	must(t, err)
	must(t, d.Sync())
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Fatalf("before it was placed there is %q", b)
	}
	must(t, d.Place())
	d.Drop()
	if b, _ := os.ReadFile(path); string(b) != "new" {
		t.Fatalf("placed, there is %q", b)
	}
	d, err = NewDraft(path, []byte("newer"))
	must(t, err)
	d.Drop()
	if got := list(t, dir); len(got) != 1 {
		t.Fatalf("a dropped draft left %q", got)
	}
	if err := d.Sync(); err == nil {
		t.Fatal("a dropped draft was synced")
	}
}

// TestAtOnce checks that steps run at once, and that each may fail; so may the sync of one of
// many files.
func TestAtOnce(t *testing.T) {
	meet, one, other := make(chan struct{}), errors.New("one"), errors.New("other")
	err := AtOnce(
		func() error { <-meet; return one },
		func() error { close(meet); return nil },
		func() error { return other },
	)
	if !errors.Is(err, one) || !errors.Is(err, other) {
		t.Fatalf("the steps gave %v", err)
	}
	dir := t.TempDir()
	for i := range 3 * abreast {
		must(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte("12"), 0o600))
	}
	if size, err := SyncFiles(dir); size != 6*abreast || err != nil {
		t.Fatalf("SyncFiles gave %d, %v", size, err)
	}
	must(t, os.Symlink("nothing", filepath.Join(dir, "link")))
	if _, err := SyncFiles(dir); err == nil {
		t.Fatal("a link was synced")
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	must(t, os.WriteFile(filepath.Join(dir, "target"), []byte("old"), 0o644))
	must(t, os.Symlink("target", path))
	must(t, WriteFile(path, []byte("new")))
	info, err := os.Lstat(path)
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("the file has mode %v", info.Mode())
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "target")); string(b) != "old" {
		t.Errorf("a link was written through: %q", b)
	}
	if err := WriteFile(filepath.Join(dir, "none", "f"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("wrote into a directory that is not there: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	if err := WriteFile(filepath.Join(dir, "d"), nil); err == nil {
		t.Error("a directory was replaced")
	}
	if err := WriteJSON(path, func() {}); err == nil {
		t.Error("a function was encoded")
	}
	if got := list(t, dir); len(got) != 3 {
		t.Errorf("there are %q", got)
	}
}

func writeOnFullDisk(args []string) error {
	dir := args[0]
	if err := unix.Mount("full", dir, "tmpfs", 0, "size=64k"); err != nil {
		fmt.Println("skip: mount:", err)
		return nil
	}
	path := filepath.Join(dir, "doc.json")
	if err := WriteJSON(path, newDocument(7)); err != nil {
		return err
	}
	if err := WriteFile(path, make([]byte, 1<<20)); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("a megabyte on 64 KiB: %w", err)
	}
	var d document
	if err := ReadJSON(path, &d); err != nil || d.N != 7 || !d.whole() {
		return fmt.Errorf("the old document: %+v, %w", d.N, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".tmp-*")); len(left) != 0 {
		return fmt.Errorf("left behind: %q", left)
	}
	return nil
}

func TestWriteOnFullDisk(t *testing.T) {
	out, err := onFullDisk(t, "full").Output()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) > 0 {
		t.Skipf("no mount namespace here: %s", out)
	}
}

// TestSweepTemp checks that leftovers of killed writers are removed once they are old, and that
// new ones stay.
func TestSweepTemp(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{tempPrefix + "old": time.Hour, tempPrefix + "new": 0, "other": time.Hour} {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
	}
	SweepTemp(dir, tempAge)
	if got := list(t, dir); len(got) != 2 || got[0] != tempPrefix+"new" {
		t.Errorf("there are %q", got)
	}
}

// TestSame checks that Same compares both streams to their ends.
func TestSame(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	for _, x := range []struct {
		a, b string
		want bool
	}{
		{"", "", true},
		{"a", "a", true},
		{"a", "b", false},
		{"a", "", false},
		{long, long, true},
		{long, long[1:], false},
		{long, long + "x", false},
		{long, long[:5<<10] + "y" + long[5<<10+1:], false},
		{long, long[:len(long)-1] + "y", false},
	} {
		if same, err := Same(strings.NewReader(x.a), iotest.HalfReader(strings.NewReader(x.b))); same != x.want || err != nil {
			t.Errorf("%d and %d bytes: %v, %v", len(x.a), len(x.b), same, err)
		}
	}
}

// TestSameFails checks that a reader that fails is an error, not another content.
func TestSameFails(t *testing.T) {
	whole := func() io.Reader { return strings.NewReader("abcdef") }
	fails := func() io.Reader { return io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(unix.EIO)) }
	for _, x := range [][2]io.Reader{{whole(), fails()}, {fails(), whole()}} {
		if same, err := Same(x[0], x[1]); same || !errors.Is(err, unix.EIO) {
			t.Errorf("%v, %v", same, err)
		}
	}
}

func TestReadJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var v map[string]any
	if err := ReadJSON(path, &v); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing document: %v", err)
	}
	must(t, os.WriteFile(path, []byte(`{"a": 1`), 0o600))
	var syntax *json.SyntaxError
	if err := ReadJSON(path, &v); !errors.As(err, &syntax) || !strings.Contains(err.Error(), path) {
		t.Errorf("half a document: %v", err)
	}
}

func holdLock(args []string) error {
	if _, err := TryLock(args[0]); err != nil {
		return err
	}
	fmt.Println("held")
	time.Sleep(time.Hour)
	return nil
}

// TestLock checks that a lock binds other processes and other opens of the file, and ends with
// its holder.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := again(t, "hold", path)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	must(t, err)
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("another process holds it: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := WaitLock(path)
		if err == nil {
			l.Unlock()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	must(t, <-got)

	l, err := TryLock(path)
	must(t, err)
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("this process holds it: %v", err)
	}
	l.Unlock()
	l, err = TryLock(path)
	must(t, err)
	l.Unlock()
	if _, err := TryLock(filepath.Join(path, "below")); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("a lock that cannot be made: %v", err)
	}
}

// TestLockHandedOn checks that a child that got the file keeps the lock, whatever its parent
// does.
func TestLockHandedOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := TryLock(path)
	must(t, err)
	fd, err := unix.FcntlInt(l.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	must(t, err)
	l.Unlock()
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("the copy does not hold it: %v", err)
	}
	unix.Close(fd)
	l, err = TryLock(path)
	must(t, err)
	l.Unlock()
}

// TestLockIsNotInherited checks that programs that are started meanwhile do not inherit a lock's
// descriptor.
func TestLockIsNotInherited(t *testing.T) {
	l, err := TryLock(filepath.Join(t.TempDir(), "lock"))
	must(t, err)
	defer l.Unlock()
	flags, err := unix.FcntlInt(l.File().Fd(), unix.F_GETFD, 0)
	must(t, err)
	if flags&unix.FD_CLOEXEC == 0 {
		t.Error("it is")
	}
}

func TestLockExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var n, inside atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				l, err := WaitLock(path)
				if err != nil {
					t.Error(err)
					return
				}
				if now := inside.Add(1); now != 1 {
					t.Errorf("%d hold it", now)
				}
				n.Add(1)
				inside.Add(-1)
				l.Unlock()
			}
		})
	}
	wg.Wait()
	if n.Load() != 400 {
		t.Errorf("counted %d", n.Load())
	}
}

func TestOpen(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "a", "b", "state")
	for range 2 {
		s, err := Open(dir)
		must(t, err)
		if s.Path() != dir {
			t.Errorf("it lies in %s", s.Path())
		}
	}
	for _, d := range []string{dir, filepath.Join(dir, "sandboxes")} {
		must(t, os.Chmod(d, 0o777))
	}
	_, err := Open(dir)
	must(t, err)
	for _, d := range []string{dir, filepath.Join(dir, "sandboxes")} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v (%v)", d, info.Mode(), err)
		}
	}
}

// TestOpenRefuses checks D10: a directory that another user prepared is not used.
func TestOpenRefuses(t *testing.T) {
	refused := func(t *testing.T, dir string) {
		t.Helper()
		_, err := Open(dir)
		if err == nil {
			t.Fatal("it was opened")
		}
		if !strings.Contains(spec.Hint(err), "BOTHY_HOME") {
			t.Errorf("%v gives the hint %q", err, spec.Hint(err))
		}
	}
	t.Run("a link", func(t *testing.T) {
		base := t.TempDir()
		must(t, os.Mkdir(filepath.Join(base, "real"), 0o755))
		must(t, os.Symlink("real", filepath.Join(base, "state")))
		refused(t, filepath.Join(base, "state"))
		if info, _ := os.Stat(filepath.Join(base, "real")); info.Mode().Perm() != 0o755 {
			t.Errorf("what it points to was changed to %v", info.Mode())
		}
	})
	for _, name := range []string{"a[b", "a\nb", "a\xffb"} { // gVisor finds nothing in the first
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			base := t.TempDir()
			refused(t, filepath.Join(base, name, "state"))
			if left := list(t, base); len(left) != 0 {
				t.Errorf("it was made: %q", left)
			}
			must(t, os.Mkdir(filepath.Join(base, name), 0o700))
			must(t, os.Symlink(name, filepath.Join(base, "link")))
			refused(t, filepath.Join(base, "link", "state"))
		})
	}
	t.Run("a link in it", func(t *testing.T) {
		base := t.TempDir()
		must(t, os.Mkdir(filepath.Join(base, "real"), 0o755))
		must(t, os.Mkdir(filepath.Join(base, "state"), 0o700))
		must(t, os.Symlink("../real", filepath.Join(base, "state", "sandboxes")))
		refused(t, filepath.Join(base, "state"))
	})
	t.Run("one for other things, open to others", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o777|os.ModeSticky))
		must(t, os.WriteFile(filepath.Join(dir, "somebody's"), nil, 0o644))
		refused(t, dir)
		if info, _ := os.Stat(dir); info.Mode().Perm() != 0o777 {
			t.Errorf("it was changed to %v", info.Mode())
		}
	})
	t.Run("one for other things, closed to others", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o700))
		for _, name := range names { // users also give their own directories such names
			must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		}
		photo := filepath.Join(dir, imagesName, "photo.jpg")
		must(t, os.WriteFile(photo, []byte("precious"), 0o600))
		refused(t, dir)
		if err := (&Store{dir: dir}).Erase(); err == nil {
			t.Error("it was erased")
		}
		_, err := os.Stat(photo)
		must(t, err)
	})
	t.Run("one whose sandboxes are something else", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, sandboxesName, "beach"), 0o755))
		refused(t, dir)
	})
	t.Run("a file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state")
		must(t, os.WriteFile(path, nil, 0o600))
		refused(t, path)
	})
	t.Run("another user's", func(t *testing.T) {
		if os.Geteuid() == 0 {
			dir := t.TempDir()
			must(t, os.Chown(dir, ordinaryID, ordinaryID))
			refused(t, dir)
			return
		}
		refused(t, "/")
	})
	t.Run("a place without permission", func(t *testing.T) {
		dir := ordinaryDir(t)
		must(t, os.Chmod(dir, 0o555))
		cmd := ordinary(again(t, "openhere", filepath.Join(dir, "state")))
		cmd.Stderr = nil
		if err := cmd.Run(); err == nil {
			t.Error("it was opened")
		}
	})
}

// TestOpenMarks checks directories from before there was a mark, and the entries allowed in a new
// one.
func TestOpenMarks(t *testing.T) {
	for _, x := range []struct {
		name  string
		there []string // directories end with a slash
	}{
		{"an empty one", nil},
		{"a file system of its own", []string{"lost+found/"}},
		{"a key that was brought along", []string{ownerName}},
		{"rules that were written beforehand", []string{policyName}},
		{"sandboxes, and none was ever made", []string{"sandboxes/"}},
		{"sandboxes", []string{"sandboxes/0123456789ab/", "sandboxes/.gone-0123456789ab-00/", namesLock}},
		{"no sandbox, and rules", []string{"sandboxes/", policyLock}},
		{"no sandbox, and secrets", []string{"sandboxes/", "secrets/", "secrets/lock"}},
		{"no sandbox, and an agent", []string{"sandboxes/", "agents/claude/", "agents/claude/.lock"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.Chmod(dir, 0o755))
			for _, name := range x.there {
				path := filepath.Join(dir, name)
				if strings.HasSuffix(name, "/") {
					must(t, os.MkdirAll(path, 0o755))
				} else {
					must(t, os.WriteFile(path, nil, 0o600))
				}
			}
			s, err := Open(dir)
			must(t, err)
			if !s.marked() {
				t.Error("it has no mark")
			}
			must(t, os.WriteFile(filepath.Join(dir, "foreign"), nil, 0o600))
			_, err = Open(dir)
			must(t, err)
			must(t, s.Erase())
			if left, _ := os.ReadDir(dir); len(left) < 1 || len(left) > 2 || left[0].Name() != "foreign" {
				t.Errorf("it holds %v", left)
			}
		})
	}
}

func TestDir(t *testing.T) {
	wd, err := os.Getwd()
	must(t, err)
	tests := []struct{ name, bothy, xdg, home, want string }{
		{"own variable", "/b", "/x", "/h", "/b"},
		{"own variable, relative", "b", "", "/h", filepath.Join(wd, "b")},
		{"xdg", "", "/x", "/h", "/x/bothy"},
		{"relative xdg does not count", "", "x", "/h", "/h/.local/share/bothy"},
		{"home", "", "", "/h", "/h/.local/share/bothy"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("BOTHY_HOME", tt.bothy)
			t.Setenv("XDG_DATA_HOME", tt.xdg)
			t.Setenv("HOME", tt.home)
			if got, err := Dir(); got != tt.want || err != nil {
				t.Errorf("Dir() = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestPasswdHome(t *testing.T) {
	db := "root:x:0:0:root:/root:/bin/sh\nbroken:x:7\nme:x:1000:1000:,,,:/home/me:/bin/sh\nnowhere:x:8:8:::/bin/false\nrelative:x:9:9::home:/bin/sh\nlast:x:10:10::/l:/bin/sh"
	tests := []struct {
		uid  int
		want string
	}{{0, "/root"}, {1000, "/home/me"}, {7, ""}, {8, ""}, {9, ""}, {10, "/l"}, {11, ""}, {100, ""}}
	for _, tt := range tests {
		if got := homeOf(passwd.Parse(db), tt.uid); got != tt.want {
			t.Errorf("uid %d lives in %q, want %q", tt.uid, got, tt.want)
		}
	}
}
