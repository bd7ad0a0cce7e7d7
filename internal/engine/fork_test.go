package engine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// hearing notes what is said.
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

// Where not all forks can be made, those that were made are given, and what they begin from
// stays; where none can, nothing stays.
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

// What a fork does not have of a checkpoint is said once; not what it has from the host.
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

// Programs that go on have files of the host's as they are now, where a checkpoint has none
// of them, or a fork gets none.
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

// Who waits for long is told for what.
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
