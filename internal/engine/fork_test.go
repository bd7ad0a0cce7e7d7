package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// hearing records the messages to the user.
func hearing(e *Engine) *[]string {
	said := &[]string{}
	e.Progress = func(text string) { *said = append(*said, text) }
	return said
}

func points(t *testing.T, e *Engine, sb *spec.Sandbox) int {
	t.Helper()
	list, err := e.Checkpoints(sb).List()
	must(t, err)
	return len(list)
}

// TestForkHalfway checks that if not all forks can be made, those that were made are returned, and
// their checkpoint stays. If none can be made, nothing stays.
func TestForkHalfway(t *testing.T) {
	e, _, sb := newMovable(t)
	if made, err := e.ForkNow(t.Context(), sb, []string{"one", sb.Name}, true); len(made) != 0 || !errors.Is(err, spec.ErrConflict) || points(t, e, sb) != 0 {
		t.Errorf("%v: %d forks, %d checkpoints", err, len(made), points(t, e, sb))
	}
	made, err := e.ForkNow(t.Context(), sb, []string{"one", "one"}, true)
	if len(made) != 1 || !errors.Is(err, spec.ErrConflict) || points(t, e, sb) != 1 {
		t.Errorf("%v: %d forks, %d checkpoints", err, len(made), points(t, e, sb))
	}
}

// TestForkSaysWhatIsLeft checks that files of a checkpoint that a fork lacks are reported once, but
// not files that it has from the host.
func TestForkSaysWhatIsLeft(t *testing.T) {
	e, dir, sb := newMovable(t)
	home := e.Store.Sandbox(sb.ID).Home()
	deep := func(top string) {
		must(t, os.MkdirAll(top, 0o700))
		d, err := os.Open(top)
		must(t, err)
		for range 410 {
			must(t, unix.Mkdirat(int(d.Fd()), "d", 0o700))
			fd, err := unix.Openat(int(d.Fd()), "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			must(t, err)
			d.Close()
			d = os.NewFile(uintptr(fd), "d")
		}
		d.Close()
	}
	said := hearing(e)
	deep(dir)
	_, err := e.ForkNow(t.Context(), sb, []string{"one"}, true)
	must(t, err)
	if len(*said) > 0 {
		t.Errorf("%q is said", *said)
	}
	deep(home)
	_, err = e.ForkNow(t.Context(), sb, []string{"two", "three"}, true)
	must(t, err)
	if len(*said) != 1 || !strings.HasPrefix((*said)[0], "1 files could not be read when checkpoint 2 was made") {
		t.Errorf("%q is said", *said)
	}
}

// TestAsItIs checks that resumed programs find files of the host as they are now if the checkpoint
// does not hold them, or if a fork does not get them.
func TestAsItIs(t *testing.T) {
	e := newEngine(t)
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	mount := func(name string, readOnly bool) spec.Mount {
		return spec.Mount{Source: filepath.Join(top, name), Target: filepath.Join(top, name), ReadOnly: readOnly}
	}
	must(t, os.WriteFile(filepath.Join(top, "file"), nil, 0o600))
	sb := wish("")
	sb.Workspaces = []spec.Mount{mount("dir", false), mount("file", false), mount("read", true)}
	sb.Volumes = []spec.Mount{mount("volume", false)}
	for _, c := range []struct {
		mode            string
		inPlace, forked []string
	}{
		{spec.WorkspaceLive, []string{"file", "read", "volume"}, []string{"dir", "file", "read", "volume"}},
		{spec.WorkspaceReview, []string{"dir", "file", "read", "volume"}, []string{"dir", "file", "read", "volume"}},
		{spec.WorkspaceClone, []string{"read", "volume"}, []string{"read", "volume"}},
	} {
		sb.WorkspaceMode = c.mode
		for _, forked := range []bool{false, true} {
			want := c.inPlace
			if forked {
				want = c.forked
			}
			var got []string
			for _, place := range e.asItIs(sb, forked) {
				got = append(got, filepath.Base(place))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, forked %t: %q, and not %q", c.mode, forked, got, want)
			}
		}
	}
}

// TestPatiently checks that a caller that waits for long is told the reason.
func TestPatiently(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		said := hearing(e)
		e.patiently("too short %d", 1)()
		done := e.patiently("waiting for %s", "it")
		time.Sleep(waitNotice + time.Second)
		synctest.Wait()
		done()
		if !slices.Equal(*said, []string{"waiting for it"}) {
			t.Errorf("%q is said", *said)
		}
	})
}

// TestForkInterrupted checks that a cancelled caller makes no more forks, and leaves none behind.
func TestForkInterrupted(t *testing.T) {
	e, _, sb := newMovable(t)
	p, err := e.Checkpoint(t.Context(), sb, "", "", false)
	must(t, err)
	gone := errors.New("told to go")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if made, err := e.Fork(ctx, sb, p, []string{"one", "two"}, true); len(made) > 0 || !errors.Is(err, gone) {
		t.Errorf("%d forks, %v", len(made), err)
	}
	if made, err := e.forkEach(ctx, sb, p, []string{"one", "two"}, nil); len(made) > 0 || !errors.Is(err, gone) {
		t.Errorf("%d forks, %v", len(made), err)
	}
	if got := names(t, e); !slices.Equal(got, []string{sb.Name}) {
		t.Errorf("there are %q", got)
	}
}

// TestHalfFork checks that a fork is incomplete until its programs resume in it. No command starts
// it before, and it is removed if its maker was killed. A fork that was started has work in it, and
// stays.
func TestHalfFork(t *testing.T) {
	e, _, sb := newMovable(t)
	p, err := e.Checkpoint(t.Context(), sb, "", "", false)
	must(t, err)
	maker := &Engine{Store: e.Store, Agents: e.Agents}
	for _, name := range []string{"half", "started", "whole"} {
		fork, err := maker.forkFiles(t.Context(), sb, p, name, true, nil)
		must(t, err)
		if _, err := e.Connect(t.Context(), fork); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "is being forked") {
			t.Errorf("while it is made: %v", err)
		}
		e.sweep()
		switch name {
		case "started":
			now := time.Now()
			must(t, store.WriteJSON(e.Store.Sandbox(fork.ID).Status(), spec.Status{State: spec.Stopped, StartedAt: &now}))
			maker.makers.end(fork.ID)
		case "whole":
			must(t, maker.forked(fork))
		default:
			maker.makers.end(fork.ID) // the kernel does that for a killed maker
			if _, err := e.Connect(t.Context(), fork); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "half a fork") {
				t.Errorf("half made: %v", err)
			}
		}
	}
	if _, err := e.Fork(t.Context(), sb, p, []string{"half"}, true); err != nil {
		t.Errorf("its name is not free: %v", err)
	}
	if got := names(t, e); !slices.Equal(got, []string{"half", sb.Name, "started", "whole"}) {
		t.Errorf("there are %q", got)
	}
}

// TestLockFork checks that lockFork waits for a lock that another process holds for a moment, but
// not for a fork that was started.
func TestLockFork(t *testing.T) {
	e := newEngine(t)
	sb := wish(t.TempDir())
	must(t, e.Create(here, sb))
	d := e.Store.Sandbox(sb.ID)
	moment, err := store.TryLock(d.Lock())
	must(t, err)
	time.AfterFunc(20*time.Millisecond, moment.Unlock)
	lock, err := lockFork(t.Context(), d)
	must(t, err)
	defer lock.Unlock()

	ended, end := context.WithCancelCause(t.Context())
	gone := errors.New("told to go")
	end(gone)
	if _, err := lockFork(ended, d); !errors.Is(err, gone) {
		t.Errorf("whose command was ended: %v", err)
	}
	now := time.Now()
	must(t, store.WriteJSON(d.Status(), spec.Status{StartedAt: &now}))
	if _, err := lockFork(t.Context(), d); !errors.Is(err, errStarted) {
		t.Errorf("that was started: %v", err)
	}
}
