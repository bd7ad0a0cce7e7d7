package hostroot

import (
	"os"
	"path/filepath"
	"testing"
)

// disownedRoot names the host TestDisowned looks at.
const disownedRoot = "BOTHY_TEST_TEMPLATE_DISOWNED"

// disownedPrograms is the directory of its disowned programs.
const disownedPrograms = "BOTHY_TEST_TEMPLATE_PROGRAMS"

// runDisowned runs TestDisowned the way root starts a keeper.
func runDisowned() error {
	dir, err := os.MkdirTemp("", "disowned")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for path, mode := range map[string]os.FileMode{
		"usr/bin/tool": 0o755, "usr/bin/suid-only": 0o711, "usr/lib/private": 0o600, "opt/vendor/key": 0o640, "etc/services": 0o644,
	} {
		p := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, []byte("x"), mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "usr/lib/closed"), 0o700); err != nil {
		return err
	}
	at, err := os.MkdirTemp("", "disowned-programs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(at)
	cmd := again("-test.v", "-test.run=^TestDisowned$")
	cmd.Env = append(cmd.Env, disownedRoot+"="+dir, disownedPrograms+"="+at)
	return source{root: dir}.disown(at, func() error { return runAgain(cmd) })
}

func TestDisowned(t *testing.T) {
	root := os.Getenv(disownedRoot)
	if root == "" {
		t.Skip("skipped: runs by itself, after the others, if they run as root")
	}
	h := prepare(t, source{root: root}, newCache(t))
	dir := newRoot(t)
	must(t, h.Assemble(dir, Options{Program: testProgram, ID: "1", Hostname: "h", Disowned: os.Getenv(disownedPrograms)}))
	if gaps := h.Gaps(); len(gaps) != 0 {
		t.Skip("skipped: this kernel or file system cannot map owners: ", gaps)
	}
	for path, readable := range map[string]bool{
		"usr/bin/tool": true, "usr/bin/suid-only": false, "usr/lib/private": false, "usr/lib/closed": false, "opt/vendor/key": false,
	} {
		f, err := os.Open(filepath.Join(dir, path))
		if err == nil {
			f.Close()
		}
		if (err == nil) != readable {
			t.Errorf("open %s: %v; want readable: %v", path, err, readable)
		}
		if f, err = os.Open(filepath.Join(root, path)); err != nil {
			t.Errorf("at its own path it has another owner: %v", err)
		} else {
			f.Close()
		}
	}
}
