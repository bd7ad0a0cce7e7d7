package versions

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// newerFiles are files with a version, as patterns below the state directory, and the commands that need
// each of them.
var newerFiles = []struct {
	pattern string
	edit    func(t *testing.T, path string)
	refused [][]string
}{
	{"policy.yaml", setYAML, [][]string{{"policy", "ls"}, {"policy", "allow", "example.org"}, {"exec", "box", "true"}}},
	{"written.json", setJSON, [][]string{{"run", "--rm", "shell", "sub", "--", "true"}, {"exec", "box", "true"}}},
	{"secrets/vault.json", setJSON, [][]string{{"secret", "ls"}, {"secret", "set", "npm"}, {"secret", "lease", "npm", "--sandbox", "box"}}},
	{"tasks/tasks.db", setUserVersion, [][]string{{"task", "ls"}, {"task", "add", "another"}}},
	{"templates/saved*/template.json", setJSON, [][]string{{"create", "--name", "other", "-t", "saved", "shell", "sub"}}},
	{"templates/saved*/sums", setSums, [][]string{{"create", "--name", "other", "-t", "saved", "shell", "sub"}}},
	{"runs/*/run.json", setJSON, [][]string{{"loop", "resume"}}},
	{"sandboxes/BOX/spec.json", setJSON, [][]string{{"exec", "box", "true"}, {"checkpoint", "create", "box"}, {"save", "box", "again"}, {"fork", "box"}}},
	{"sandboxes/BOX/policy.yaml", setYAML, [][]string{{"policy", "ls", "--sandbox", "box"}, {"exec", "box", "true"}}},
	{"sandboxes/BOX/leases.json", setJSON, [][]string{{"secret", "lease", "npm", "--sandbox", "box"}}},
	{"sandboxes/BOX/status.json", setJSON, [][]string{{"exec", "box", "true"}, {"checkpoint", "restore", "-f", "box", "1"}}},
	{"sandboxes/BOX/bill.json", setJSON, [][]string{{"cost", "box"}, {"exec", "box", "true"}}},
	{"sandboxes/BOX/uploads.json", setJSON, [][]string{{"exec", "box", "true"}}},
	{"sandboxes/BOX/layers/root-*/sums", setSums, [][]string{{"exec", "box", "true"}}},
	{"sandboxes/BOX/checkpoints/1/checkpoint.json", setJSON, [][]string{{"checkpoint", "ls", "box"}, {"checkpoint", "create", "box"}, {"checkpoint", "restore", "-f", "box", "1"}}},
	{"sandboxes/BOX/checkpoints/1/trees", setSums, [][]string{{"checkpoint", "restore", "-f", "box", "1"}, {"fork", "--checkpoint", "1", "box"}}},
	{"sandboxes/REVIEW/review/0/record.json", setJSON, [][]string{{"diff", "review"}, {"apply", "review"}, {"exec", "review", "true"}}},
	{"sandboxes/CLONE/clone/0/record.json", setJSON, [][]string{{"fetch", "clone"}}},
}

var versionOne = regexp.MustCompile(`"version": ?1\b`)

func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := change(bytes.Clone(old))
	if bytes.Equal(old, changed) {
		t.Fatalf("%s has no version that could be changed: %.200s", path, old)
	}
	if err := os.WriteFile(path, changed, 0); err != nil { // it keeps its mode
		t.Fatal(err)
	}
}

// setJSON sets the version of a document to 99 and adds a member that this version does not know.
func setJSON(t *testing.T, path string) {
	edit(t, path, func(b []byte) []byte { return versionOne.ReplaceAll(b, []byte(`"version": 99, "unheard": [1]`)) })
}

func setYAML(t *testing.T, path string) {
	edit(t, path, func(b []byte) []byte {
		return bytes.Replace(b, []byte("version: 1\n"), []byte("version: 99\nunheard: [1]\n"), 1)
	})
}

// setSums raises the version in the first line of a file that ends with the SHA-256 of the rest.
func setSums(t *testing.T, path string) {
	edit(t, path, func(b []byte) []byte {
		b = bytes.Replace(b[:len(b)-sha256.Size], []byte(" 1\n"), []byte(" 99\n"), 1)
		sum := sha256.Sum256(b)
		return append(b, sum[:]...)
	})
}

// setUserVersion raises the version that SQLite keeps for its user, at byte 60 of the file.
func setUserVersion(t *testing.T, path string) {
	edit(t, path, func(b []byte) []byte { b[63] = 99; return b })
}

// hashes returns the hash of each file below a directory, except for locks, logs, SQLite's records of
// its readers, and the mark of an empty store of images, which looking up a template makes.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && d.IsDir() { // the kernel's, below an overlay
			return fs.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if strings.HasSuffix(name, "lock") || strings.Contains(name, "/log/") || strings.HasSuffix(name, ".db-shm") || strings.HasSuffix(name, ".db-wal") || strings.HasPrefix(filepath.Base(name), ".held") || name == "images/oci-layout" {
			return nil
		}
		b, err := os.ReadFile(path)
		all[name] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// changes lists the differences.
func changes(before, after map[string]string) (list []string) {
	for name, sum := range before {
		if after[name] != sum {
			list = append(list, name)
		}
	}
	for name := range after {
		if _, known := before[name]; !known {
			list = append(list, name+" (new)")
		}
	}
	return list
}

// fill makes one of every kind of file.
func fill(t *testing.T, c *harness.Caller) {
	t.Helper()
	c.Mkdir(t, filepath.Join(c.Work, "sub"))
	for _, dir := range []string{"review", "clone"} {
		c.Mkdir(t, filepath.Join(c.Home, dir))
	}
	git(t, c, "init", "-q")
	git(t, c, "-c", "user.name=N", "-c", "user.email=n@example.org", "commit", "-q", "--allow-empty", "-m", "first")
	c.Mkdir(t, filepath.Join(c.Home, ".config/bothy/agents"))
	c.Write(t, filepath.Join(c.Home, ".config/bothy/agents/mine.yaml"), lazyAgent)
	c.Must(t, "policy", "allow", "example.net")
	if r := c.RunInput("value-of-a-secret\n", "secret", "set", "npm"); r.Code != 0 {
		t.Fatal(r)
	}
	c.Must(t, "task", "add", "one")
	c.Must(t, "create", "--name", "box", "shell", ".")
	c.Must(t, "policy", "allow", "--sandbox", "box", "example.com")
	c.Must(t, "secret", "lease", "npm", "--sandbox", "box")
	c.Must(t, "exec", "box", "sh", "-c", "echo kept > ~/kept; sudo sh -c 'echo kept > /usr/local/kept'")
	c.Must(t, "checkpoint", "create", "box")
	c.Must(t, "save", "box", "saved")
	c.Must(t, "stop", "box")
	c.Must(t, "create", "--name", "review", "--workspace", "review", "shell", "../review")
	c.Must(t, "exec", "review", "sh", "-c", "echo new > new")
	c.Must(t, "stop", "review")
	c.Must(t, "create", "--name", "clone", "--workspace", "clone", "shell", ".")
	r := c.Run("loop", "run", "--agent", "mine", "--max-iterations", "1", "--until", "false", "work")
	if r.Code != spec.ExitError && r.Code != spec.ExitLimit {
		t.Fatal(r)
	}
	box := filepath.Join(c.State, "sandboxes", c.Inspect(t, "box").ID)
	for name, text := range map[string]string{"bill.json": `{"version": 1, "models": []}`, "uploads.json": `{"version": 1, "uploads": []}`} {
		c.Write(t, filepath.Join(box, name), text)
	}
}

func git(t *testing.T, c *harness.Caller, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = c.Work, c.Environment(), c.Attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// lazyAgent is an agent that reports that it is done.
const lazyAgent = `version: 1
name: mine
title: Mine
program: sh
headless:
  args: [-c, "cat > /dev/null; printf '{\"type\":\"bye\",\"good\":true}\\n'"]
  prompt: {stdin: true}
  output: events
  events:
    rules:
      - {when: {type: bye}, kind: end, text: text}
  end: [{type: bye}]
  success: [{type: bye, good: "true"}]
`

// TestNewer checks that each command that needs a file from a newer Bothy reports that, and that it
// changes nothing below the state directory.
func TestNewer(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		fill(t, c)
		ids := strings.NewReplacer("BOX", c.Inspect(t, "box").ID, "REVIEW", c.Inspect(t, "review").ID, "CLONE", c.Inspect(t, "clone").ID)
		for _, f := range newerFiles {
			t.Run(f.pattern, func(t *testing.T) {
				paths, _ := filepath.Glob(filepath.Join(c.State, ids.Replace(f.pattern)))
				if len(paths) != 1 {
					t.Fatalf("%d files: %v", len(paths), paths)
				}
				whole, err := os.ReadFile(paths[0])
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = os.WriteFile(paths[0], whole, 0) }()
				f.edit(t, paths[0])
				for _, args := range f.refused {
					before := hashes(t, c.State)
					r := c.RunInput("value-of-a-secret\n", args...)
					if r.Code != spec.ExitConflict && r.Code != spec.ExitSandbox || !strings.Contains(r.Stderr, "newer Bothy (version 99, this one knows up to 1)") || !strings.Contains(r.Stderr, "hint: upgrade bothy") {
						t.Errorf("it is not refused as newer: %v", r)
					}
					if diff := changes(before, hashes(t, c.State)); len(diff) > 0 {
						t.Errorf("%q changed %v", args, diff)
					}
				}
				before, _ := os.ReadFile(paths[0])
				for _, args := range [][]string{{"ls"}, {"system", "df"}, {"system", "verify"}} {
					_ = c.Run(args...) // its result does not matter
				}
				if after, _ := os.ReadFile(paths[0]); !bytes.Equal(before, after) {
					t.Error("it was changed")
				}
			})
		}
	})
}
