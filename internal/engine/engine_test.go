package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newEngine(t testing.TB) *Engine {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return &Engine{Store: s, Version: "test"}
}

// wish returns a sandbox of the shell in a directory.
func wish(dir string) *spec.Sandbox {
	sb := &spec.Sandbox{Version: spec.Version, ID: store.NewID(), Agent: "shell", Template: spec.TemplateHost, Driver: "gvisor", CreatedAt: time.Now().UTC()}
	if dir != "" {
		sb.Workspaces = []spec.Mount{{Source: dir, Target: dir}}
	}
	return sb
}

func names(t testing.TB, e *Engine) []string {
	t.Helper()
	list, err := e.List()
	must(t, err)
	var out []string
	for _, i := range list {
		out = append(out, i.Spec.Name)
	}
	return out
}

func TestFreeName(t *testing.T) {
	taken := map[string]bool{}
	for _, want := range []string{"shell-app", "shell-app-2", "shell-app-3"} {
		got := freeName(wish("/srv/app"), taken)
		if got != want {
			t.Errorf("the next name is %q, want %q", got, want)
		}
		taken[got] = true
	}
	delete(taken, "shell-app-2")
	if got := freeName(wish("/srv/app"), taken); got != "shell-app-2" {
		t.Errorf("a name given back is not used: %q", got)
	}
	if got := freeName(wish(""), nil); got != "shell-sandbox" {
		t.Errorf("without a directory it is %q", got)
	}
	long, taken := "/srv/"+strings.Repeat("n", 300), map[string]bool{}
	for range 99 {
		name := freeName(wish(long), taken)
		must(t, spec.CheckName(name))
		taken[name] = true
	}
}

// TestCreateInterrupted checks that a caller that waits for another to make a sandbox can be
// cancelled.
func TestCreateInterrupted(t *testing.T) {
	e := newEngine(t)
	held, err := e.Store.NamesLock(t.Context())
	must(t, err)
	defer held.Unlock()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := e.Create(ctx, wish("/srv/app")); !errors.Is(err, why) {
		t.Errorf("Create() = %v", err)
	}
	if _, _, err := e.Obtain(ctx, wish("/srv/app")); !errors.Is(err, why) {
		t.Errorf("Obtain() = %v", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	e := newEngine(t)
	one := wish("/srv/app")
	one.Name = "box"
	must(t, e.Create(t.Context(), one))
	tests := []struct {
		name   string
		change func(*spec.Sandbox)
		want   error
	}{
		{"a name that is taken", func(sb *spec.Sandbox) { sb.Name = "box" }, spec.ErrConflict},
		{"a bad name", func(sb *spec.Sandbox) { sb.Name = "../box" }, spec.ErrUsage},
		{"a name like an id", func(sb *spec.Sandbox) { sb.Name = one.ID }, spec.ErrUsage},
		{"a reserved name", func(sb *spec.Sandbox) { sb.Name = "default" }, spec.ErrUsage},
		{"two mounts at one place", func(sb *spec.Sandbox) { sb.Volumes = sb.Workspaces }, spec.ErrUsage},
		{"a private directory over programs", func(sb *spec.Sandbox) { sb.Private = []string{"/usr"} }, spec.ErrUsage},
		{"a mount over the kernel's own", func(sb *spec.Sandbox) { sb.Volumes = []spec.Mount{{Source: "/srv", Target: "/proc"}} }, spec.ErrUsage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sb := wish("/srv/app")
			tt.change(sb)
			if err := e.Create(t.Context(), sb); !errors.Is(err, tt.want) {
				t.Errorf("Create() = %v, want %v", err, tt.want)
			}
		})
	}
	if got := names(t, e); !slices.Equal(got, []string{"box"}) {
		t.Errorf("there are %q", got)
	}
	shared := wish("/dev/shm/app") // it is in a file system in memory, not among devices
	must(t, e.Create(t.Context(), shared))
}

func TestFind(t *testing.T) {
	e := newEngine(t)
	var all []*spec.Sandbox
	for i, dir := range []string{"/srv/b", "/srv/a", "/srv/b"} {
		sb := wish(dir)
		sb.CreatedAt = sb.CreatedAt.Add(-time.Duration(i) * time.Hour)
		must(t, e.Create(t.Context(), sb))
		all = append(all, sb)
	}
	if got := names(t, e); !slices.Equal(got, []string{"shell-a", "shell-b", "shell-b-2"}) {
		t.Errorf("there are %q", got)
	}
	for _, sb := range all {
		for _, ref := range []string{sb.Name, sb.ID} {
			if got, err := e.Find(ref); err != nil || got.ID != sb.ID {
				t.Errorf("Find(%q) = %+v, %v", ref, got, err)
			}
		}
	}
	all[2].Name = all[1].ID // from before such names were refused
	must(t, store.WriteJSON(e.Store.Sandbox(all[2].ID).Spec(), all[2]))
	if got, err := e.Find(all[1].ID); err != nil || got.ID != all[1].ID {
		t.Errorf("an id finds %+v, %v", got, err)
	}
	for _, ref := range []string{"", "shell", all[0].ID[:11], "SHELL-A", "."} {
		if got, err := e.Find(ref); !errors.Is(err, spec.ErrNotFound) {
			t.Errorf("Find(%q) = %+v, %v", ref, got, err)
		}
	}
	if got, err := e.FindFor("shell", "/srv/b"); err != nil || got.ID != all[2].ID {
		t.Errorf("of two the oldest is %+v, %v", got, err)
	}
	for _, pair := range [][2]string{{"shell", "/srv"}, {"claude", "/srv/b"}, {"shell", "/srv/b/"}} {
		if got, err := e.FindFor(pair[0], pair[1]); got != nil || err != nil {
			t.Errorf("FindFor(%q) = %+v, %v", pair, got, err)
		}
	}
}

// TestStatus checks that the lock outranks the status.
func TestStatus(t *testing.T) {
	e := newEngine(t)
	sb := wish("/srv/app")
	must(t, e.Create(t.Context(), sb))
	d := e.Store.Sandbox(sb.ID)
	set := func(st spec.Status) { must(t, store.WriteJSON(d.Status(), st)) }
	for _, state := range []spec.State{spec.Starting, spec.Running, spec.Stopping} {
		set(spec.Status{State: state, KeeperPID: 7})
		lock, err := store.TryLock(d.Lock())
		must(t, err)
		if st := e.Status(sb); st.State != state || st.Crashed {
			t.Errorf("%s with a keeper is %s, crashed %t", state, st.State, st.Crashed)
		}
		lock.Unlock()
		if st := e.Status(sb); st.State != spec.Stopped || !st.Crashed || st.Reason == "" {
			t.Errorf("%s without a keeper is %+v", state, st)
		}
		if lock, err = store.TryLock(d.Lock()); err != nil {
			t.Errorf("asking keeps the lock: %v", err)
		} else {
			lock.Unlock()
		}
	}
	set(spec.Status{State: spec.Running, Reason: "it fell"})
	if st := e.Status(sb); st.Reason != "it fell" {
		t.Errorf("the reason it gave itself became %q", st.Reason)
	}
	set(spec.Status{State: spec.Stopped})
	if st := e.Status(sb); st.Crashed {
		t.Error("a stopped one crashed")
	}
}

// TestStopLeavesDrafts checks that the cleaning of a stop leaves drafts alone: rules and leases may
// be written at the same time.
func TestStopLeavesDrafts(t *testing.T) {
	e := newEngine(t)
	sb := wish("/srv/app")
	must(t, e.Create(t.Context(), sb))
	d := e.Store.Sandbox(sb.ID)
	draft, err := store.NewDraft(d.Policy(), []byte("version: 1\n"))
	must(t, err)
	defer draft.Drop()
	left := filepath.Join(d.Dir, ".tmp-left")
	must(t, os.WriteFile(left, nil, 0o600))
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(left, old, old))
	must(t, e.Stop(t.Context(), sb, 0))
	must(t, draft.Sync())
	must(t, draft.Place())
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a crash left stays: %v", err)
	}
}

// TestStopAfterCrash checks that a stop or a removal cleans up after a keeper that died.
func TestStopAfterCrash(t *testing.T) {
	e := newEngine(t)
	sb := wish("/srv/app")
	must(t, e.Create(t.Context(), sb))
	d := e.Store.Sandbox(sb.ID)
	must(t, store.WriteJSON(d.Status(), spec.Status{State: spec.Running, KeeperPID: 1 << 30}))
	must(t, os.WriteFile(d.Control(), nil, 0o600))
	must(t, os.MkdirAll(filepath.Join(d.Layers(), ".root-1"), 0o700))
	must(t, os.WriteFile(filepath.Join(d.Home(), "work"), []byte("precious"), 0o600))
	for range 2 {
		must(t, e.Stop(t.Context(), sb, time.Second))
	}
	if st := d.ReadStatus(); st.State != spec.Stopped || !st.Crashed || st.KeeperPID != 0 || st.StoppedAt == nil {
		t.Errorf("it is written down as %+v", st)
	}
	for _, gone := range []string{d.Control(), filepath.Join(d.Layers(), ".root-1")} {
		if _, err := os.Lstat(gone); err == nil {
			t.Errorf("%s is there", gone)
		}
	}
	if b, err := os.ReadFile(filepath.Join(d.Home(), "work")); string(b) != "precious" {
		t.Errorf("the home has %q, %v", b, err)
	}
	must(t, e.Remove(t.Context(), sb, false))
	must(t, e.Remove(t.Context(), sb, false))
	if got := names(t, e); len(got) != 0 {
		t.Errorf("there are %q", got)
	}
}

// TestSweep checks that the next creation removes sandboxes for one command that is over. It keeps
// others, and those that are about to start.
func TestSweep(t *testing.T) {
	e := newEngine(t)
	put := func(maker *Engine, name string, remove, started bool) {
		sb := wish("/srv/" + name)
		sb.Name, sb.Remove = name, remove
		must(t, maker.Create(t.Context(), sb))
		if started {
			now := time.Now()
			must(t, store.WriteJSON(e.Store.Sandbox(sb.ID).Status(), spec.Status{State: spec.Stopped, StartedAt: &now}))
		}
	}
	dead, alive := &Engine{Store: e.Store, Agents: e.Agents}, &Engine{Store: e.Store, Agents: e.Agents}
	put(dead, "abandoned", true, false)
	put(dead, "kept", false, true)
	put(alive, "over", true, true)
	put(alive, "about", true, false)
	for id := range dead.reserved.byID { // the kernel does that for a killed creator
		dead.reserved.release(id)
	}
	must(t, e.Create(t.Context(), wish("/srv/last")))
	if got := names(t, e); !slices.Equal(got, []string{"about", "kept", "shell-last"}) {
		t.Errorf("there are %q", got)
	}
	about, err := e.Find("about")
	must(t, err)
	must(t, alive.Remove(t.Context(), about, true))
	if n := len(alive.reserved.byID); n != 0 {
		t.Errorf("%d locks are held", n)
	}
}

// TestConnectToNothing checks that a removed sandbox cannot be started, and that a stopped one
// cannot be dialled.
func TestConnectToNothing(t *testing.T) {
	e := newEngine(t)
	sb := wish("/srv/app")
	if _, err := e.Connect(t.Context(), sb); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("one that never was: %v", err)
	}
	must(t, e.Create(t.Context(), sb))
	if _, err := e.Keepers().Inside(t.Context(), sb); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("one that does not run: %v", err)
	}
	d := e.Store.Sandbox(sb.ID)
	lock, err := store.TryLock(d.Lock())
	must(t, err)
	defer lock.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Connect(ctx, sb); !errors.Is(err, spec.ErrSandbox) {
		t.Errorf("one whose keeper is silent: %v", err)
	}
	must(t, store.WriteJSON(d.Status(), spec.Status{Version: spec.Version, State: spec.Running}))
	if _, err := e.Keepers().Inside(t.Context(), sb); !errors.Is(err, spec.ErrSandbox) || spec.Hint(err) == "" {
		t.Errorf("one that runs and does not answer: %v", err)
	}
}

// TestInsideOfOneThatEnds checks the error if a sandbox ends while it is asked. The error says that
// it does not run or is gone, and names no file.
func TestInsideOfOneThatEnds(t *testing.T) {
	for what, end := range map[string]func(d store.Sandbox, lock *store.Lock){
		"does not run": func(d store.Sandbox, lock *store.Lock) {
			_ = store.WriteJSON(d.Status(), spec.Status{Version: spec.Version, State: spec.Stopped})
			lock.Unlock()
		},
		"was removed": func(d store.Sandbox, lock *store.Lock) {
			_ = os.RemoveAll(d.Dir)
			lock.Unlock()
		},
	} {
		e := newEngine(t)
		sb := wish("/srv/app")
		must(t, e.Create(t.Context(), sb))
		d := e.Store.Sandbox(sb.ID)
		lock, err := store.TryLock(d.Lock())
		must(t, err)
		must(t, store.WriteJSON(d.Status(), spec.Status{Version: spec.Version, State: spec.Running}))
		time.AfterFunc(30*time.Millisecond, func() { end(d, lock) })
		if _, err := e.Keepers().Inside(t.Context(), sb); err == nil || !strings.HasSuffix(err.Error(), what) {
			t.Errorf("one that %s: %v", what, err)
		}
	}
}

// TestRemoveStrays checks that files that have a sandbox's name but cannot be one are removed like
// a broken sandbox.
func TestRemoveStrays(t *testing.T) {
	e := newEngine(t)
	dir := e.Store.Sandboxes()
	must(t, os.WriteFile(filepath.Join(dir, "abcdefabcdef"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "abcdefabcd00"), 0))
	for _, name := range names(t, e) {
		sb, err := e.Find(name)
		must(t, err)
		must(t, e.Remove(t.Context(), sb, true))
	}
	if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
		t.Errorf("there are %v, %v", left, err)
	}
}

func TestReset(t *testing.T) {
	e := newEngine(t)
	for i := range 3 {
		must(t, e.Create(t.Context(), wish(fmt.Sprintf("/srv/%d", i))))
	}
	foreign := filepath.Join(e.Store.Path(), "mine.txt")
	must(t, os.WriteFile(foreign, nil, 0o600))
	gone, err := e.Reset(t.Context())
	must(t, err)
	slices.Sort(gone)
	if !slices.Equal(gone, []string{"shell-0", "shell-1", "shell-2"}) {
		t.Errorf("removed: %q", gone)
	}
	entries, err := os.ReadDir(e.Store.Path())
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != "mine.txt" {
		t.Errorf("there are %v", entries)
	}
}
