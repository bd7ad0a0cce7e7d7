package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func points(t *testing.T, s *Snapshots, sb *spec.Sandbox) int {
	t.Helper()
	list, err := s.Checkpoints(sb).List()
	must(t, err)
	return len(list)
}

// TestForkHalfway checks that if not all forks can be made, those that were made are returned, and
// their checkpoint stays. If none can be made, nothing stays.
func TestForkHalfway(t *testing.T) {
	s, _, sb := newMovable(t)
	if made, err := s.ForkNow(t.Context(), sb, []string{"one", sb.Name}, true); len(made) != 0 || !errors.Is(err, spec.ErrConflict) || points(t, s, sb) != 0 {
		t.Errorf("%v: %d forks, %d checkpoints", err, len(made), points(t, s, sb))
	}
	made, err := s.ForkNow(t.Context(), sb, []string{"one", "one"}, true)
	if len(made) != 1 || !errors.Is(err, spec.ErrConflict) || points(t, s, sb) != 1 {
		t.Errorf("%v: %d forks, %d checkpoints", err, len(made), points(t, s, sb))
	}
}

// TestForkSaysWhatIsLeft checks that files of a checkpoint that a fork lacks are reported once, but
// not files that it has from the host.
func TestForkSaysWhatIsLeft(t *testing.T) {
	s, dir, sb := newMovable(t)
	home := s.directory(sb).Home()
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
	said := hearing(s)
	deep(dir)
	_, err := s.ForkNow(t.Context(), sb, []string{"one"}, true)
	must(t, err)
	if len(*said) > 0 {
		t.Errorf("%q is said", *said)
	}
	deep(home)
	_, err = s.ForkNow(t.Context(), sb, []string{"two", "three"}, true)
	must(t, err)
	if len(*said) != 1 || !strings.HasPrefix((*said)[0], "1 file could not be read when checkpoint 2 was made") {
		t.Errorf("%q is said", *said)
	}
}

// TestSharedPlaces checks that resumed programs find files of the host as they are now if the checkpoint
// does not hold them, or if a fork does not get them.
func TestSharedPlaces(t *testing.T) {
	s := newSnapshots(t)
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
			for _, place := range s.sharedPlaces(sb, forked) {
				got = append(got, filepath.Base(place))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, forked %t: %q, and not %q", c.mode, forked, got, want)
			}
		}
	}
}

// TestForkInterrupted checks that a cancelled caller makes no more forks, and leaves none behind.
func TestForkInterrupted(t *testing.T) {
	s, _, sb := newMovable(t)
	p, err := s.Checkpoint(t.Context(), sb, "", "", false)
	must(t, err)
	gone := errors.New("told to go")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if made, err := s.Fork(ctx, sb, p, []string{"one", "two"}, true); len(made) > 0 || !errors.Is(err, gone) {
		t.Errorf("%d forks, %v", len(made), err)
	}
	if made, err := s.forkEach(ctx, sb, p, []string{"one", "two"}, nil); len(made) > 0 || !errors.Is(err, gone) {
		t.Errorf("%d forks, %v", len(made), err)
	}
	if got := names(t, s); !slices.Equal(got, []string{sb.Name}) {
		t.Errorf("there are %q", got)
	}
}

// TestForkAwaitsPrograms checks that no command starts a fork before its programs resume in it.
func TestForkAwaitsPrograms(t *testing.T) {
	s, _, sb := newMovable(t)
	p, err := s.Checkpoint(t.Context(), sb, "", "", false)
	must(t, err)
	fork, err := s.forkFiles(t.Context(), sb, p, "fork", true, nil)
	must(t, err)
	if _, err := s.engine.Connect(t.Context(), fork); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "is being forked") {
		t.Errorf("while it is made: %v", err)
	}
}

// TestLockFork checks that lockFork waits for a lock that another process holds for a moment, but
// not for a fork that was started.
func TestLockFork(t *testing.T) {
	s := newSnapshots(t)
	sb := wish(t.TempDir())
	must(t, s.engine.Create(t.Context(), sb))
	d := s.directory(sb)
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

// TestMemoryCapabilities checks that memory is refused before anything is made, if the driver cannot keep
// it or cannot continue from it in another sandbox.
func TestMemoryCapabilities(t *testing.T) {
	s, _, sb := newMovable(t)
	for _, tt := range []struct {
		can        driver.Capabilities
		keep, fork bool
	}{
		{driver.Capabilities{}, false, false},
		{driver.Capabilities{MemoryImage: true}, true, false},
		{driver.Capabilities{MemoryImage: true, Fork: true}, true, true},
	} {
		s.engine.Drivers = driver.Table{driver.GVisor: tt.can}
		if err := s.checkMemory(sb, false); (err == nil) != tt.keep {
			t.Errorf("%+v: keep: %v", tt.can, err)
		}
		if err := s.checkMemory(sb, true); (err == nil) != tt.fork {
			t.Errorf("%+v: fork: %v", tt.can, err)
		}
		if tt.keep {
			continue
		}
		if _, err := s.Checkpoint(t.Context(), sb, "", "", true); !errors.Is(err, spec.ErrUsage) || points(t, s, sb) != 0 {
			t.Errorf("a full checkpoint: %v, %d checkpoints", err, points(t, s, sb))
		}
		if _, err := s.forkRunning(t.Context(), sb, []string{"one"}); !errors.Is(err, spec.ErrUsage) || points(t, s, sb) != 0 {
			t.Errorf("a fork of programs: %v, %d checkpoints", err, points(t, s, sb))
		}
	}
}
