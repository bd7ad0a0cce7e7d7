package engine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/spec"
)

// TestPruneLeavesNeeded checks that pruning leaves sandboxes that are just being made, or that a
// run could resume with, however long ago they were used.
func TestPruneLeavesNeeded(t *testing.T) {
	e := newEngine(t)
	sb := wish(t.TempDir())
	sb.CreatedAt = time.Now().Add(-time.Hour)
	must(t, e.Create(t.Context(), sb, e.MarkUnfinished(sb)))
	other := another(e)
	stays := func(why string) {
		t.Helper()
		d, err := other.Disk().Measure()
		must(t, err)
		if list := d.Chosen(rootfs.Pruning{Kinds: []string{rootfs.KindSandbox}}); len(list) != 0 {
			t.Errorf("%s is to go, although %s", list[0].Name, why)
		}
		if got := d.Items[0].Kept; got != why {
			t.Errorf("it is kept because %q, not %q", got, why)
		}
		if err := (diskSandboxes{other}).removeStopped(sb); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("removing it, although %s: %v", why, err)
		}
	}
	stays("it is being made")
	must(t, e.MarkFinished(sb))
	other.Claims = func() (map[string]string, error) { return map[string]string{sb.ID: "work-1"}, nil }
	stays("the run work-1 could go on with it")
	other.Claims = func() (map[string]string, error) { return nil, errors.New("torn") }
	stays("a run may need it that cannot be read: torn")
	other.Claims = nil
	must(t, (diskSandboxes{other}).removeStopped(sb))
	if left := names(t, e); len(left) != 0 {
		t.Errorf("there is %v", left)
	}
}

// TestDiskUnread checks that items that cannot be read are reported, and do not hide the rest.
func TestDiskUnread(t *testing.T) {
	e := newEngine(t)
	must(t, e.Create(t.Context(), wish(t.TempDir())))
	index := filepath.Join(e.Store.Images(), "index.json")
	must(t, os.MkdirAll(e.Store.Images(), 0o700))
	must(t, os.WriteFile(index, []byte("garbage"), 0o600))
	must(t, os.MkdirAll(filepath.Join(e.Store.Agents(), "mine", ".new-0123"), 0o700))
	d, err := e.Disk().Measure()
	must(t, err)
	var got []string
	for _, it := range d.Items {
		got = append(got, it.Kind)
		if it.Kind == rootfs.KindImage && !strings.Contains(it.Kept, index) {
			t.Errorf("the images stay because %q", it.Kept)
		}
	}
	if want := []string{rootfs.KindSandbox, rootfs.KindImage, rootfs.KindLeftover}; !slices.Equal(got, want) {
		t.Errorf("there are %q, not %q", got, want)
	}
}

// TestDiskOfLayer checks that the kernel's own directory in a layer, which is unreadable, does not
// count as unread.
func TestDiskOfLayer(t *testing.T) {
	e := newEngine(t)
	sb := wish(t.TempDir())
	sb.WorkspaceMode = spec.WorkspaceReview
	must(t, e.Create(t.Context(), sb))
	idle := filepath.Join(e.Store.Sandbox(sb.ID).Review(0), "work", "work")
	must(t, os.MkdirAll(idle, 0o700))
	must(t, os.WriteFile(filepath.Join(idle, "file"), make([]byte, 1<<20), 0o600))
	must(t, os.Chmod(idle, 0))
	t.Cleanup(func() { _ = os.Chmod(idle, 0o700) })
	d, err := e.Disk().Measure()
	must(t, err)
	if d.Unread > 0 || len(d.Items) != 1 || d.Items[0].Bytes >= 1<<20 {
		t.Errorf("%d directories were not looked into, there is %+v", d.Unread, d.Items)
	}
}
