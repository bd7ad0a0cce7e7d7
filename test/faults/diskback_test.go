package faults

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// leave fills a disk except for some bytes.
func leave(t *testing.T, disk string, room int64) (free func()) {
	t.Helper()
	free = fill(t, disk)
	filler := filepath.Join(disk, "filler")
	info, err := os.Stat(filler)
	if err == nil {
		err = os.Truncate(filler, info.Size()-room)
	}
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// TestFullDiskBack fills the disk before commands that unpack a checkpoint, a template or a review
// layer. The commands report it and leave nothing half made. Existing data is not lost, and every
// command works when the disk has space.
func TestFullDiskBack(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		disk, bothy := small(t, c, "size=96m,mode=0700")
		work := filepath.Join(c.State, "work")
		c.Env = append(c.Env, "BOTHY_HOME="+filepath.Join(c.State, "state"))
		if err := os.Mkdir(filepath.Join(disk, "work"), 0o700); err != nil {
			t.Fatal(err)
		}
		c.Own(t, filepath.Join(disk, "work"))
		must := func(args ...string) string {
			t.Helper()
			r := bothy(args...)
			if r.Code != 0 {
				t.Fatalf("%v", r)
			}
			return r.Stdout
		}
		// The command must fail, and report why.
		cannot := func(args ...string) harness.Result {
			t.Helper()
			r := bothy(args...)
			explained(t, r)
			if r.Code == 0 || !strings.Contains(r.Stderr, "no space left") {
				t.Errorf("with no room: %v", r)
			}
			return r
		}
		const at = "cat ~/at at /opt/at; cat ~/big* | cksum | cmp - ~/sum"
		change := func(to string) {
			must("exec", "-u", "root", "box", "sh", "-c", "echo "+to+" > /opt/at")
			must("exec", "box", "sh", "-c", "echo "+to+" > ~/at; echo "+to+" > at; rm -f ~/big*; head -c 300000 /dev/urandom > ~/big; cksum < ~/big > ~/sum")
		}
		is := func(name, want string) {
			t.Helper()
			if got := must("exec", name, "sh", "-c", at); got != strings.Repeat(want+"\n", 3) {
				t.Errorf("%s holds %q, want %s", name, got, want)
			}
		}
		must("create", "--workspace", "review", "--name", "box", "shell", work)
		must("exec", "box", "sh", "-c", "cd; for i in 1 2 3 4; do head -c 1048576 /dev/urandom > big$i; done; cat big* | cksum > sum; echo one > at; echo one > "+work+"/at; echo > "+work+"/later")
		must("exec", "-u", "root", "box", "sh", "-c", "echo one > /opt/at")
		must("checkpoint", "create", "--full", "box", "one")
		exported := filepath.Join(c.Base, "exported")
		must("checkpoint", "export", "-o", exported, "box", "one")
		must("save", "box", "saved")
		change("two")

		// A full disk, and one with room for a part.
		for _, room := range []int64{0, 512 << 10} {
			free := leave(t, disk, room)
			cannot("fork", "--files", "--checkpoint", "one", "--name", "copy", "box")
			cannot("fork", "--checkpoint", "one", "--name", "copy", "box")
			cannot("checkpoint", "restore", "--to", "copy", "box", "one")
			cannot("checkpoint", "import", "--name", "copy", exported)
			cannot("create", "-t", "saved", "--name", "copy", "shell", work)
			cannot("save", "-o", filepath.Join(work, "image.tar"), "box", "again")
			bothy("template", "rm", "again") // it may be complete without its image
			if room == 0 {
				cannot("save", "box", "again")
				cannot("fork", "--name", "copy", "box")
				if r := cannot("apply", "box"); !strings.Contains(r.Stderr, "2 changes not looked at any more") {
					t.Errorf("it does not tell what was left: %v", r)
				}
				if r := cannot("checkpoint", "restore", "-f", "box", "one"); !strings.Contains(r.Stderr, "is lost") {
					t.Errorf("it is stopped, and does not say that not all was saved: %v", r)
				}
				cannot("checkpoint", "restore", "-f", "box", "one")
			}
			if out := bothy("ls", "-q").Stdout; out != "box\n" {
				t.Errorf("with room for %d bytes there are now %q", room, out)
			}
			if out := must("template", "ls"); strings.Contains(out, "again") {
				t.Errorf("half a template: %s", out)
			}
			for _, pattern := range []string{"work/.*", "work/at", "work/image.tar", "state/sandboxes/*/checkpoints/.new-memory-*", "state/images/roots/.new-*"} {
				if left, _ := filepath.Glob(filepath.Join(disk, pattern)); len(left) > 0 {
					t.Errorf("with room for %d bytes left behind: %q", room, left)
				}
			}
			free()
			must("exec", "-u", "root", "box", "sh", "-c", "echo two > /opt/at")
			is("box", "two")
		}

		// The disk fills up half way through the restore. The earlier state stays available at once.
		// When the disk has space, the rest of the restore is done. Failed attempts add no checkpoint.
		free := leave(t, disk, 512<<10)
		r := cannot("checkpoint", "restore", "-f", "box", "one")
		before := regexp.MustCompile(`what there was is checkpoint (\d+)`).FindStringSubmatch(r.Stderr)
		if before == nil || !strings.Contains(r.Stderr, "checkpoint restore --discard box "+before[1]) {
			t.Fatalf("it does not say how to come back: %v", r)
		}
		for range 3 {
			if r := cannot("exec", "box", "true"); !strings.Contains(r.Stderr, "make room") {
				t.Errorf("%v", r)
			}
		}
		if out := must("checkpoint", "ls", "box"); strings.Count(out, "before going back") > 2 {
			t.Errorf("every try has made a checkpoint:\n%s", out)
		}
		must("checkpoint", "restore", "-f", "--discard", "box", before[1])
		is("box", "two")
		cannot("checkpoint", "restore", "-f", "box", "one")
		free()
		is("box", "one")

		must("checkpoint", "restore", "-f", "box", "one")
		must("apply", "box", "at")
		if got := readFile(filepath.Join(disk, "work/at")); got != "one\n" {
			t.Errorf("applied is %q", got)
		}
		must("checkpoint", "import", "--name", "copy", exported)
		is("copy", "one")
		must("rm", "-f", "--all")
	})
}
