package database

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/smalldisk"
	"github.com/bothy-dev/bothy/spec"
)

func TestFullDisk(t *testing.T) {
	smalldisk.Test(t, "512k", testFullDisk)
}

// testFullDisk checks that on a full disk a change is refused as a whole. The tasks can be read,
// and changes work again once the disk has room. This holds for a process that had the tasks open,
// and for a new one.
func testFullDisk(t *testing.T, dir string) {
	root := filepath.Join(dir, "tasks")
	ballast := filepath.Join(dir, "ballast")
	for _, fresh := range []bool{false, true} {
		b := begin(t, root, project)
		before := view(t, b).Len()
		add(t, b, map[bool]string{false: "bd-a", true: "bd-c"}[fresh])
		if fresh {
			b.Close()
		}
		if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("fill the disk: %v", err)
		}
		err := b.Change(t.Context(), adding("bd-large", strings.Repeat("x", 100<<10)))
		if err == nil || !strings.Contains(spec.Hint(err), "room on the disk") {
			t.Errorf("fresh %t: %v, %q", fresh, err, spec.Hint(err))
		}
		g, err := b.View(t.Context())
		if err != nil || g.Len() != before+1 {
			t.Errorf("fresh %t: it cannot be read: %v", fresh, err)
		}
		must(t, os.Remove(ballast))
		add(t, b, map[bool]string{false: "bd-b", true: "bd-d"}[fresh])
		if n := view(t, b).Len(); n != before+2 {
			t.Errorf("fresh %t: %d tasks", fresh, n)
		}
		b.Close()
	}
}
