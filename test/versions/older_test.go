package versions

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// olderBase is the path where the recorded state was made. The state contains absolute paths.
const olderBase = "/tmp/bothy-old"

// TestOlder checks that this build continues with the state that each of three older commits wrote
// (testdata/COMMIT.tar.gz, made by record.sh): sandboxes with their files, checkpoints, a template, a
// task, rules and secrets. Memory is bound to the build that wrote it, which is reported.
func TestOlder(t *testing.T) {
	harness.AsUser(t)
	archives, err := filepath.Glob("testdata/*.tar.gz")
	if err != nil || len(archives) != 3 {
		t.Fatalf("%v, %v", archives, err)
	}
	harness.EachAlone(t, func(t *testing.T, _ *harness.Caller) {
		for _, archive := range archives {
			t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
				loadOlder(t, olderCaller(t, archive))
			})
		}
	})
}

// olderCaller is a caller whose home and state are those of an archive.
func olderCaller(t *testing.T, archive string) *harness.Caller {
	t.Helper()
	name := "root"
	if strings.Contains(t.Name(), "/user/") {
		name = "user"
	}
	if _, err := os.Lstat(olderBase); err == nil {
		t.Fatalf("%s is in the way: remove it", olderBase)
	}
	t.Cleanup(func() { _ = os.RemoveAll(olderBase) }) // after the caller's own end, which uses it
	c := harness.New(t, name)
	if err := os.Mkdir(olderBase, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-xzf", archive, "--no-same-owner", "-C", olderBase).CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v\n%s", err, out)
	}
	if os.Geteuid() == 0 {
		if err := filepath.WalkDir(olderBase, func(path string, _ os.DirEntry, err error) error {
			if err == nil {
				err = os.Lchown(path, c.UID, c.GID)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	c.Home, c.State, c.Work = olderBase+"/home", olderBase+"/state", olderBase+"/home/project"
	return c
}

// earlyCommit reports whether this is the commit that kept tasks in journals, before they had a
// database, and had no list of the host's names for a review.
func earlyCommit(t *testing.T) bool { return strings.HasSuffix(t.Name(), "/64bb39a9") }

func loadOlder(t *testing.T, c *harness.Caller) {
	says := func(want string, args ...string) {
		t.Helper()
		if out := c.Must(t, args...); !strings.Contains(out, want) {
			t.Errorf("%q says %q, not %q", args, out, want)
		}
	}
	says("old", "ls")
	if earlyCommit(t) {
		r := c.Run("task", "ls")
		if r.Code != spec.ExitConflict || !strings.Contains(r.Stderr, "an earlier Bothy has written") || !strings.Contains(r.Stderr, "hint: export them") {
			t.Errorf("tasks in a journal: %v", r)
		}
	} else {
		says("an old task", "task", "ls")
	}
	says("npm", "secret", "ls")
	says("oldtemplate", "template", "ls")
	says("example.com", "policy", "ls", "--sandbox", "old")
	verifyOlder(t, c)

	says("later\nlater\nlater\n", "exec", "old", "sh", "-c", catKept)
	says("npm_", "exec", "old", "sh", "-c", "echo $NPM_TOKEN")
	c.Must(t, "stop", "old")
	if c.Name == "root" { // the files of the checkpoints belong to root
		restoreOlder(t, c)
	}

	c.Mkdir(t, filepath.Join(c.Home, "fresh"))
	c.Must(t, "create", "--name", "fresh", "-t", "oldtemplate", "shell", "../fresh")
	says("later\nlater\n", "exec", "fresh", "sh", "-c", "cat ~/kept /usr/local/kept")

	says("new", "diff", "--name-only", "reviewed")
	apply := []string{"apply", "reviewed"}
	if earlyCommit(t) { // it recorded no names of the host: names that may have been deleted there conflict
		if r := c.Run(apply...); r.Code == 0 || !strings.Contains(r.Stderr, "in conflict") {
			t.Errorf("a review without names: %v", r)
		}
		apply = append(apply, "--overwrite", "new")
	}
	c.Must(t, apply...)
	if data, err := os.ReadFile(filepath.Join(c.Home, "reviewed", "new")); string(data) != "new\n" {
		t.Errorf("apply brought %q, %v", data, err)
	}
	c.Must(t, "exec", "cloned", "sh", "-c", "git -c user.name=N -c user.email=n@example.org commit -q --allow-empty -m second")
	c.Must(t, "fetch", "cloned")
	c.Must(t, "stop", "old", "fresh", "cloned")
	verifyOlder(t, c)
}

const catKept = "cat ~/kept kept /usr/local/kept"

// restoreOlder restores a checkpoint of files, and the files of a full one, whose memory is rejected.
func restoreOlder(t *testing.T, c *harness.Caller) {
	t.Helper()
	r := c.Run("checkpoint", "restore", "-f", "old", "2")
	if r.Code != spec.ExitConflict || !strings.Contains(r.Stderr, "another build of bothy") || !strings.Contains(r.Stderr, "--files") {
		t.Errorf("the memory of another build: %v", r)
	}
	for _, args := range [][]string{{"1"}, {"--files", "2"}} {
		c.Must(t, "exec", "old", "sh", "-c", "echo other > ~/kept; echo other > kept")
		c.Must(t, append([]string{"checkpoint", "restore", "-f", "old"}, args...)...)
		if out := c.Must(t, "exec", "old", "sh", "-c", catKept); out != "home\nwork\nroot\n" {
			t.Errorf("checkpoint %v brought back %q", args, out)
		}
	}
}

// verifyOlder checks that only tasks in a journal, which are to be exported, are called damaged.
func verifyOlder(t *testing.T, c *harness.Caller) {
	t.Helper()
	r := c.Run("system", "verify")
	if earlyCommit(t) {
		if r.Code != 1 || !strings.Contains(r.Stderr, "1 thing is damaged") || !strings.Contains(r.Stdout, "export them with that one") {
			t.Errorf("tasks in a journal: %v", r)
		}
		return
	}
	if r.Code != 0 {
		t.Errorf("%v", r)
	}
}
