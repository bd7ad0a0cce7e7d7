package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return s
}

func wish(name string) *spec.Sandbox {
	return &spec.Sandbox{Version: spec.Version, ID: NewID(), Name: name, Agent: "shell", Workspaces: []spec.Mount{{Source: "/srv/a", Target: "/srv/a"}}}
}

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if !IsID(id) || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
	for _, bad := range []string{"", "..", "0123456789a", "0123456789abc", "0123456789ag", ".gone-012345", "0123456789a/", "-123456789ab"} {
		if IsID(bad) {
			t.Errorf("%q is an id", bad)
		}
	}
}

// TestCreateWithMore checks that the further files appear together with the spec, or not at all.
func TestCreateWithMore(t *testing.T) {
	s, sb := open(t), wish("one")
	d, err := s.Create(sb, func(d Sandbox) error {
		if _, err := s.Load(sb.ID); err == nil {
			t.Error("it can be seen already")
		}
		return WriteFile(d.Policy(), []byte("rules"))
	})
	must(t, err)
	if b, err := os.ReadFile(d.Policy()); err != nil || string(b) != "rules" {
		t.Errorf("the rules are %q, %v", b, err)
	}
	boom := errors.New("boom")
	two := wish("two")
	if _, err := s.Create(two, func(Sandbox) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	if got := list(t, s.sandboxes()); !slices.Equal(got, []string{sb.ID}) {
		t.Errorf("there is %q", got)
	}
}

func TestCreate(t *testing.T) {
	s, sb := open(t), wish("one")
	d, err := s.Create(sb)
	must(t, err)
	if d != s.Sandbox(sb.ID) || d.ID() != sb.ID {
		t.Errorf("it lies in %s", d.Dir)
	}
	for _, dir := range []string{d.Dir, d.Home(), d.Layers(), d.Log("")} {
		if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
	got, err := s.Load(sb.ID)
	must(t, err)
	if !reflect.DeepEqual(got, sb) {
		t.Errorf("wrote %+v, read %+v", sb, got)
	}
	if st := d.ReadStatus(); st.State != spec.Stopped || st.Version != spec.Version {
		t.Errorf("its status is %+v", st)
	}

	// The same id again does not change the first sandbox.
	must(t, os.WriteFile(filepath.Join(d.Home(), "precious"), []byte("x"), 0o600))
	if _, err := s.Create(&spec.Sandbox{Version: 1, ID: sb.ID, Name: "two"}); err == nil {
		t.Error("an id was given twice")
	}
	if got, err := s.Load(sb.ID); err != nil || got.Name != "one" {
		t.Errorf("it is now %+v, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(d.Home(), "precious")); err != nil {
		t.Error(err)
	}
	if got := list(t, s.sandboxes()); !slices.Equal(got, []string{sb.ID}) {
		t.Errorf("left behind: %q", got)
	}
}

// TestAwaited checks that a maker is awaited while it holds the lock and the file exists, and
// that asking does not create the file.
func TestAwaited(t *testing.T) {
	d := Sandbox{t.TempDir()}
	if d.Awaited() || d.HasMaker() {
		t.Error("nobody has made it, and somebody is awaited, or there is a lock now")
	}
	lock, err := TryLock(d.MakerLock())
	if err != nil {
		t.Fatal(err)
	}
	if !d.Awaited() {
		t.Error("somebody makes it, and is not awaited")
	}
	lock.Unlock()
	if d.Awaited() || !d.HasMaker() {
		t.Error("nobody makes it any more, and somebody is awaited, or the lock is gone")
	}
}

func TestLoadRefuses(t *testing.T) {
	s := open(t)
	change := func(name string, change func(*spec.Sandbox), want string) { // listed by its ID, unless it is newer
		t.Run(name, func(t *testing.T) {
			sb := wish(name)
			d, err := s.Create(sb)
			must(t, err)
			defer os.RemoveAll(d.Dir)
			change(sb)
			must(t, WriteJSON(d.Spec(), sb))
			_, err = s.Load(d.ID())
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("it was read: %v", err)
			}
			all, err := s.List()
			must(t, err)
			if len(all) != 1 || all[0].ID != d.ID() || all[0].Name != map[bool]string{true: sb.Name, false: d.ID()}[name == "newer"] || all[0].Broken == "" {
				t.Errorf("it is listed as %+v", all)
			}
		})
	}
	change("newer", func(sb *spec.Sandbox) { sb.Version = spec.Version + 1 }, "newer")
	change("other mode", func(sb *spec.Sandbox) { sb.WorkspaceMode = "copy" }, "unknown workspace mode")
	change("moved", func(sb *spec.Sandbox) { sb.ID = NewID() }, "another sandbox")
	change("moved to another name", func(sb *spec.Sandbox) { sb.ID = "../../etc" }, "another sandbox")
	if _, err := s.Load(NewID()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
}

// TestReadStatus checks that a status that a crash or another version left unreadable reads as
// stopped.
func TestReadStatus(t *testing.T) {
	d := Sandbox{t.TempDir()}
	for _, text := range []string{"", "{", "[]", "\x00\x00", `{"state": 7}`} {
		must(t, os.WriteFile(d.Status(), []byte(text), 0o600))
		if st := d.ReadStatus(); st.State != spec.Stopped {
			t.Errorf("%q reads as %+v", text, st)
		}
	}
	must(t, os.Remove(d.Status()))
	if st := d.ReadStatus(); st.State != spec.Stopped {
		t.Errorf("none reads as %+v", st)
	}
}

// TestCrashStates checks that leftovers of a crash are never listed, and are swept. A sandbox
// without a spec, which no crash makes, is listed as broken, so that the user can remove it.
func TestCrashStates(t *testing.T) {
	s := open(t)
	kept := wish("kept")
	_, err := s.Create(kept)
	must(t, err)
	for _, name := range []string{".new-" + NewID(), removedPrefix + NewID() + "-" + NewID(), ".new-empty"} {
		must(t, os.MkdirAll(filepath.Join(s.sandboxes(), name, "home", "deep"), 0o700))
	}
	must(t, WriteJSON(Sandbox{filepath.Join(s.sandboxes(), ".new-"+NewID())}.Dir, wish("file")))
	half := s.Sandbox(NewID()) // its spec.json is gone
	must(t, os.MkdirAll(half.Home(), 0o700))
	must(t, os.WriteFile(filepath.Join(s.sandboxes(), "notes.txt"), nil, 0o600))

	all, err := s.List()
	must(t, err)
	whole := slices.DeleteFunc(slices.Clone(all), func(sb *spec.Sandbox) bool { return sb.Broken != "" })
	if len(all) != 2 || len(whole) != 1 || whole[0].ID != kept.ID {
		t.Errorf("listed: %+v", all)
	}
	must(t, os.WriteFile(s.Sandbox(kept.ID).Spec(), []byte("{"), 0o600)) // no crash does this
	if all, err := s.List(); err != nil || len(all) != 2 || all[0].Broken == "" || all[1].Broken == "" {
		t.Errorf("listed: %+v, %v", all, err)
	}
	must(t, errors.Join(s.Sweep(), s.SweepNew()))
	want := []string{half.ID(), kept.ID, "notes.txt"}
	slices.Sort(want)
	if got := list(t, s.sandboxes()); !slices.Equal(got, want) {
		t.Errorf("after the sweep there are %q, want %q", got, want)
	}
}

func cycleForEver(args []string) error {
	s, err := Open(args[0])
	if err != nil {
		return err
	}
	for {
		lock, err := s.NamesLock(context.Background())
		if err != nil {
			return err
		}
		if err := s.Sweep(); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
		sb := wish("cycle")
		d, err := s.Create(sb)
		lock.Unlock()
		if err != nil {
			return err
		}
		fmt.Println("+" + sb.ID)
		for i := range 20 {
			if err := os.MkdirAll(filepath.Join(d.Home(), fmt.Sprint(i), "x"), 0o700); err != nil {
				return err
			}
		}
		if err := s.Remove(sb.ID); err != nil {
			return err
		}
		fmt.Println("-" + sb.ID)
	}
}

// TestCreateRemoveSurviveKill checks that after a kill between create and remove a sandbox exists
// with all its files, or does not exist; the rest is swept.
func TestCreateRemoveSurviveKill(t *testing.T) {
	s := open(t)
	for round := range 18 {
		cmd := again(t, "cycle", s.Path())
		var out strings.Builder
		cmd.Stdout = &out
		must(t, cmd.Start())
		time.Sleep(time.Duration(8+4*round) * time.Millisecond)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		all, err := s.List()
		must(t, err)
		for _, sb := range all {
			d := s.Sandbox(sb.ID)
			for _, p := range []string{d.Home(), d.Layers(), d.Log(""), d.Spec()} {
				if _, err := os.Stat(p); err != nil {
					t.Fatalf("round %d: a sandbox without %s", round, filepath.Base(p))
				}
			}
			if strings.Contains(out.String(), "-"+sb.ID) {
				t.Fatalf("round %d: %s was removed and is there", round, sb.ID)
			}
		}
		acks := strings.Fields(out.String())
		if n := len(acks); n > 0 && acks[n-1][0] == '+' && len(all) == 0 {
			// Its removal may have begun; then its leftovers show that.
			if left := list(t, s.sandboxes()); len(left) > 1 {
				t.Fatalf("round %d: %s is lost, there are %q", round, acks[n-1], left)
			}
		}
		must(t, errors.Join(s.Sweep(), s.SweepNew()))
		for _, sb := range all {
			must(t, s.Remove(sb.ID))
		}
		if left := list(t, s.sandboxes()); len(left) != 0 {
			t.Fatalf("round %d: left behind: %q", round, left)
		}
	}
}

func TestRemove(t *testing.T) {
	s, sb := open(t), wish("one")
	_, err := s.Create(sb)
	must(t, err)
	must(t, s.Remove(sb.ID))
	must(t, s.Remove(sb.ID)) // removing it again is not an error
	if left := list(t, s.sandboxes()); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// makeHostileTree makes files that a sandbox may leave in a home.
func makeHostileTree(args []string) error {
	dir, outside := args[0], args[1]
	var errs []error
	do := func(err error) { errs = append(errs, err) }
	deep := filepath.Join(dir, "home", "a", "b", "c", "d")
	do(os.MkdirAll(deep, 0o700))
	do(os.WriteFile(filepath.Join(deep, "f"), nil, 0))
	for i, to := range []string{outside, outside + "/sub", "..", "../../..", "/", "self", "."} {
		name := fmt.Sprintf("link%d", i)
		do(os.Symlink(to, filepath.Join(dir, "home", name)))
		do(os.Symlink(to, filepath.Join(deep, name)))
	}
	do(unix.Mkfifo(filepath.Join(deep, "pipe"), 0))
	do(os.Mkdir(filepath.Join(dir, "home", strings.Repeat("n", 255)), 0o700))
	do(os.Mkdir(filepath.Join(dir, "home", "\xff\n\x1b[2J"), 0o700))
	do(os.MkdirAll(filepath.Join(dir, "home", "wide"), 0o700))
	for i := range 300 {
		do(os.Mkdir(filepath.Join(dir, "home", "wide", fmt.Sprint(i)), 0))
	}
	do(os.MkdirAll(filepath.Join(dir, "home", strings.Repeat("x/", 600)), 0o700))
	do(os.Chmod(filepath.Join(dir, "home", strings.Repeat("x/", 600)), 0))
	do(os.Chmod(filepath.Join(dir, "home", strings.Repeat("x/", 300)), 0))
	for _, d := range []string{deep, filepath.Join(dir, "home", "a", "b"), filepath.Join(dir, "home", "a"), filepath.Join(dir, "home")} {
		do(os.Chmod(d, 0))
	}
	return errors.Join(errs...)
}

// TestRemoveHostileTree checks that an ordinary user can remove a home full of locked directories
// and links, and that the links' targets are not touched.
func TestRemoveHostileTree(t *testing.T) {
	dir, outside := ordinaryDir(t), ordinaryDir(t)
	must(t, os.MkdirAll(filepath.Join(outside, "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "sub", "canary"), []byte("alive"), 0o644))
	must(t, os.Chmod(filepath.Join(outside, "sub"), 0o500))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(outside, "sub"), 0o700) })
	if os.Geteuid() == 0 {
		must(t, os.Chown(filepath.Join(outside, "sub"), ordinaryID, ordinaryID))
	}
	gone := filepath.Join(dir, "gone")
	must(t, ordinary(again(t, "hostile", gone, outside)).Run())
	must(t, ordinary(again(t, "remove", gone)).Run())
	if left := list(t, dir); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	info, err := os.Stat(filepath.Join(outside, "sub"))
	must(t, err)
	if b, err := os.ReadFile(filepath.Join(outside, "sub", "canary")); err != nil || string(b) != "alive" || info.Mode().Perm() != 0o500 {
		t.Errorf("what a link points to: %q, %v, mode %v", b, err, info.Mode())
	}
}

// TestRemoveLink checks that a tree that is a link is removed as a link.
func TestRemoveLink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "real", "sub"), 0o700))
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	must(t, RemoveTree(filepath.Join(dir, "link")))
	if got := list(t, dir); !slices.Equal(got, []string{"real"}) {
		t.Errorf("there are %q", got)
	}
	if got := list(t, filepath.Join(dir, "real")); !slices.Equal(got, []string{"sub"}) {
		t.Errorf("in the real one are %q", got)
	}
}

// TestNamesLockInterrupted checks that a process that waits for the names lock can be cancelled,
// and does not take the lock afterwards.
func TestNamesLockInterrupted(t *testing.T) {
	s := open(t)
	held, err := s.NamesLock(t.Context())
	must(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	left := make(chan error)
	go func() {
		_, err := s.NamesLock(ctx)
		left <- err
	}()
	why := errors.New("enough")
	cancel(why)
	if err := <-left; !errors.Is(err, why) {
		t.Errorf("it ended with %v", err)
	}
	held.Unlock()
	again, err := s.NamesLock(t.Context())
	must(t, err)
	again.Unlock()
}

func TestErase(t *testing.T) {
	s := open(t)
	for range 3 {
		_, err := s.Create(wish("x"))
		must(t, err)
	}
	must(t, os.MkdirAll(filepath.Join(s.Cache(), "host"), 0o700))
	must(t, os.MkdirAll(filepath.Join(s.Tasks(), "app-1"), 0o700))
	tool := filepath.Join(s.Agents(), "tool")
	must(t, os.MkdirAll(tool, 0o700))
	must(t, os.Mkdir(filepath.Join(tool, "1.0.0"), 0o500))
	lock, err := s.NamesLock(t.Context())
	must(t, err)
	lock.Unlock()
	foreign := filepath.Join(s.Path(), "mine.txt")
	must(t, os.WriteFile(foreign, []byte("x"), 0o600))
	must(t, s.Erase())
	if got := list(t, s.Path()); !slices.Equal(got, []string{"mine.txt"}) {
		t.Errorf("there are %q", got)
	}
	must(t, os.Remove(foreign))
	s, err = Open(s.Path())
	must(t, err)
	must(t, s.Erase())
	if _, err := os.Stat(s.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty directory stays: %v", err)
	}
}

// TestCreateLeavesNothingOpen checks that a spec that cannot be put in place leaves no file open.
func TestCreateLeavesNothingOpen(t *testing.T) {
	s, sb := open(t), wish("one")
	place := Sandbox{filepath.Join(s.sandboxes(), newPrefix+sb.ID)}
	must(t, os.MkdirAll(place.Spec(), 0o700))
	if _, err := s.Create(sb); err == nil {
		t.Fatal("it was created")
	}
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, place.Dir) {
			t.Errorf("%s is open", to)
		}
	}
}
