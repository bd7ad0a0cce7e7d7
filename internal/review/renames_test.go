package review

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/record"
	"github.com/bothy-dev/bothy/spec"
)

// TestRenamesEnd checks that the search for renames reads a bounded amount.
func TestRenamesEnd(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w := Workspace{Source: filepath.Join(base, "host"), Layer: record.Layer{Dir: base}}
	must(t, os.Mkdir(w.Source, 0o700))
	must(t, os.Mkdir(w.Layer.Upper(), 0o700))
	must(t, os.WriteFile(filepath.Join(w.Source, "old"), []byte("text\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(w.Layer.Upper(), "new"), []byte("text\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(w.Layer.Upper(), "old"), nil, 0o600))
	if err := unix.Setxattr(filepath.Join(w.Layer.Upper(), "old"), "user.overlay.whiteout", []byte("y"), 0); err != nil {
		t.Skipf("no mark of a deletion can be made here: %v", err)
	}
	must(t, w.Layer.Write(&record.Record{Version: spec.Version, Since: time.Now().Add(time.Hour).UnixNano()}))
	l, err := w.OpenView()
	must(t, err)
	defer l.Close()
	wants := func(hashed int64, want string) {
		t.Helper()
		l.hashed = hashed
		list, err := l.FindChanges()
		must(t, err)
		var got strings.Builder
		for _, c := range list {
			fmt.Fprintf(&got, "%s %s %s,", c.Kind, c.Path, c.From)
		}
		if got.String() != want {
			t.Errorf("with %d bytes hashed: %s", hashed, got.String())
		}
	}
	wants(0, "added new old,deleted old ,")
	for _, left := range []int64{4, 9} { // none of both files, or one
		wants(maxHashed-left, "added new ,deleted old ,")
	}
	l.hashed = 0
	if _, err := l.hashOf(l.Upper, "new", 4); err == nil || l.hashed != 4 {
		t.Errorf("a file that has grown: %v, %d bytes count", err, l.hashed)
	}
}
