package hardlinks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/record"
	"github.com/bothy-dev/bothy/spec"
)

// TestGroupsOfTheHost checks that hard links are searched below the layer, and not in the
// sandbox's files.
func TestGroupsOfTheHost(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w := review.Workspace{Source: filepath.Join(base, "host"), Layer: record.Layer{Dir: filepath.Join(base, "layer")}, Over: []string{"over"}}
	up := w.Layer.Upper()
	write := func(at ...string) {
		for _, name := range at {
			must(t, os.MkdirAll(filepath.Dir(name), 0o700))
			must(t, os.WriteFile(name, []byte("x\n"), 0o600))
		}
	}
	link := func(names ...string) {
		for _, name := range names[1:] {
			must(t, os.Link(filepath.Join(w.Source, names[0]), filepath.Join(w.Source, name)))
		}
	}
	for _, name := range []string{"a", "hidden/x", "removed", "file/y", "over/z"} {
		write(filepath.Join(w.Source, name))
	}
	link("a", "d", "e", "f", "hidden/a")
	link("hidden/x", "hidden/x2")
	link("removed", "r2")
	link("file/y", "file/y2")
	link("over/z", "over/z2")
	// The layer hides hidden, has other files at file, d and f, and has the mark of a deletion at removed.
	write(up+"/file", up+"/d", up+"/f", up+"/hidden/new")
	must(t, os.Link(up+"/file", up+"/mine"))
	must(t, os.WriteFile(up+"/removed", nil, 0o600))
	for name, mark := range map[string]string{"hidden": "user.overlay.opaque", "removed": "user.overlay.whiteout"} {
		if err := unix.Setxattr(up+"/"+name, mark, []byte("y"), 0); err != nil {
			t.Skipf("no marks of an overlay can be made here: %v", err)
		}
	}
	l, err := w.OpenView()
	must(t, err)
	defer l.Close()
	groups, err := (&cutting{View: l}).groups()
	must(t, err)
	if len(groups) != 1 || !slices.Equal(groups[0].paths, []string{"a", "e"}) {
		t.Errorf("there are %v", groups)
	}
}

func TestTooManyLinks(t *testing.T) {
	groups := []linked{{paths: []string{"a", "b", "c"}, bytes: 1 << 20}, {paths: []string{"d", "e"}, bytes: 2 << 20}}
	for _, test := range []struct {
		most      int
		mostBytes int64
		fits      bool
	}{{3, 4 << 20, true}, {2, 4 << 20, false}, {3, 4<<20 - 1, false}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			files, err := (&cutting{most: test.most, mostBytes: test.mostBytes}).checkFit(groups)
			if files != 3 {
				t.Errorf("it counts %d files, want 3", files)
			}
			if (err == nil) != test.fits || err != nil && (!errors.Is(err, spec.ErrSandbox) || !strings.Contains(err.Error(), "d and e")) {
				t.Errorf("fit says %v", err)
			}
		})
	}
}
