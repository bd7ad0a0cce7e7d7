package faults

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestFullDiskOfMemory leaves no space on the disk for a sandbox's memory, or only for half of it: the
// sandbox continues, nothing of the attempt stays, and the earlier checkpoint still works.
func TestFullDiskOfMemory(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		disk, bothy := small(t, c, "size=160m,mode=0700")
		must := func(args ...string) {
			t.Helper()
			if r := bothy(args...); r.Code != 0 {
				t.Fatalf("%v", r)
			}
		}
		const holds = "cksum < /tmp/held | cmp - ~/sum && cmp ~/sum /tmp/sum"
		must("create", "--workspace", "review", "--name", "box", "shell", c.Work)
		must("exec", "box", "sh", "-c", "head -c 33554432 /dev/urandom > /tmp/held; cksum < /tmp/held > /tmp/sum; cp /tmp/sum ~/sum")
		must("checkpoint", "create", "--full", "box", "good")
		for _, room := range []int64{0, 16 << 20} {
			free := leave(t, disk, room)
			r := bothy("checkpoint", "create", "--full", "box")
			if r.Code == 0 || !strings.Contains(r.Stderr, "no space left") && !strings.Contains(r.Stderr, "full") {
				t.Errorf("with room for %d bytes: %v", room, r)
			}
			t.Logf("%v", r)
			explained(t, r)
			must("exec", "box", "sh", "-c", holds)
			free()
			must("checkpoint", "create", "box") // this sweeps leftovers
			if images, _ := filepath.Glob(filepath.Join(disk, "sandboxes/*/checkpoints/*/memory/*.img")); len(images) != 3 {
				t.Errorf("with room for %d bytes there are %q", room, images)
			}
			must("checkpoint", "restore", "-f", "--discard", "box", "good")
			must("exec", "box", "sh", "-c", holds)
		}
		must("rm", "-f", "box")
	})
}
