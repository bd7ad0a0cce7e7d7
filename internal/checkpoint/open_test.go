package checkpoint

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// asOrdinary runs a test again as a user without privileges, and reports whether it did.
func asOrdinary(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	const somebody = 1234
	dir, err := os.MkdirTemp("", "")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chown(dir, somebody, somebody))
	again := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	again.Dir = dir
	again.Env = append(os.Environ(), "TMPDIR="+dir)
	again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: somebody, Gid: somebody}}
	out, err := again.CombinedOutput()
	if again.Process == nil {
		t.Skipf("nothing can be run as somebody else here: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return true
}

// keepWarm is keep as it runs while a sandbox runs.
func (b *box) keepWarm() Point {
	b.t.Helper()
	m, err := b.Begin("", "test")
	must(b.t, err)
	must(b.t, m.Warm(b.sources()))
	p, err := m.End(m.Take(b.sources()))
	must(b.t, err)
	return p
}

// TestUnreadableOnce checks that a file that its owner may not read is copied only once.
func TestUnreadableOnce(t *testing.T) {
	if asOrdinary(t) {
		return
	}
	b := newBox(t)
	b.write("shut", strings.Repeat("0123456789abcdef", settleFrom/16+1))
	must(t, os.Chmod(b.path("shut"), 0))
	b.settle()
	one := b.keepWarm()
	two := b.keepWarm()
	if one.Bytes > settleFrom*3/2 || two.Bytes > settleFrom/2 {
		t.Errorf("%d and %d bytes were added for a file of %d", one.Bytes, two.Bytes, settleFrom)
	}
	must(t, os.Chmod(b.path("shut"), 0o600))
	must(t, os.WriteFile(b.path("shut"), []byte("otherwise"), 0o600))
	must(t, os.Chmod(b.path("shut"), 0))
	three := b.keepWarm()
	b.back(two)
	must(t, os.Chmod(b.path("shut"), 0o600))
	if text, err := os.ReadFile(b.path("shut")); err != nil || len(text) <= settleFrom {
		t.Errorf("%v, %d bytes", err, len(text))
	}
	b.back(three)
	must(t, os.Chmod(b.path("shut"), 0o600))
	if text, err := os.ReadFile(b.path("shut")); err != nil || string(text) != "otherwise" {
		t.Errorf("%v, %d bytes", err, len(text))
	}
}

// TestShutDirectories checks that files in directories that their owner may not enter are kept,
// and that the directories stay as they are.
func TestShutDirectories(t *testing.T) {
	if asOrdinary(t) {
		return
	}
	b := newBox(t)
	dirs := map[string]os.FileMode{"none": 0, "none/none": 0, "list": 0o400, "list/enter": 0o300}
	for dir := range dirs {
		b.write(dir+"/file", dir)
		must(t, os.Symlink("to", b.path(dir+"/link")))
		must(t, unix.Mkfifo(b.path(dir+"/pipe"), 0o600))
	}
	open := func() {
		for _, dir := range []string{"none", "none/none", "list", "list/enter"} {
			must(t, os.Chmod(b.path(dir), 0o700))
		}
	}
	shut := func() {
		for _, dir := range []string{"none/none", "none", "list/enter", "list"} {
			must(t, os.Chmod(b.path(dir), dirs[dir]))
		}
	}
	t.Cleanup(open)
	open()
	want := look(t, b.dir)
	shut()
	b.settle()
	hidden := look(t, b.dir)
	one := b.keepWarm()
	if got := look(t, b.dir); got != hidden || one.Left != 0 {
		t.Errorf("%d were left, it was\n%s\n\nand is\n%s", one.Left, hidden, got)
	}
	open()
	if got := look(t, b.dir); got != want {
		t.Errorf("it was\n%s\n\nand is\n%s", want, got)
	}
	b.empty()
	b.back(one)
	if got := look(t, b.dir); got != hidden {
		t.Errorf("it was\n%s\n\nand is put back\n%s", hidden, got)
	}
	open()
	if got := look(t, b.dir); got != want {
		t.Errorf("it was\n%s\n\nand is put back\n%s", want, got)
	}
}

// TestLend checks that a change of permissions while they are lent stays.
func TestLend(t *testing.T) {
	b := newBox(t)
	b.write("file", "x")
	for name, c := range map[string]struct {
		change func()
		want   os.FileMode
	}{
		"nobody": {func() {}, 0o044},
		"others": {func() { must(t, os.Chmod(b.path("file"), 0o640)) }, 0o640},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.Chmod(b.path("file"), 0o044))
			var st unix.Stat_t
			must(t, unix.Stat(b.path("file"), &st))
			must(t, lendPermissions(b.path("file"), &st, func() error {
				if info, err := os.Stat(b.path("file")); err != nil || info.Mode() != 0o744 {
					t.Errorf("%v, %v", err, info.Mode())
				}
				c.change()
				return nil
			}))
			if info, err := os.Stat(b.path("file")); err != nil || info.Mode() != c.want {
				t.Errorf("%v, it is %v", err, info.Mode())
			}
		})
	}
}
