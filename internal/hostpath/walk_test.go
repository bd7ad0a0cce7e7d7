package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// host is a directory of the host: a sandbox writes to work, and not to outside.
type host struct{ base, work, outside string }

func newHost(t *testing.T) host {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	h := host{base, filepath.Join(base, "tree"), filepath.Join(base, "outside")}
	for _, d := range []string{h.work + "/sub", h.outside + "/deep", h.base + "/bin"} {
		must(t, os.MkdirAll(d, 0o755))
	}
	must(t, os.WriteFile(h.outside+"/key", []byte("secret"), 0o600))
	must(t, os.WriteFile(h.work+"/mine", []byte("mine"), 0o600))
	return h
}

func (h host) guard(t *testing.T) *Guard {
	t.Helper()
	found, err := LookUp(h.work)
	must(t, err)
	return NewGuard([]Directory{{Path: h.work, Identity: Found(*found)}})
}

func (h host) link(t *testing.T, target, name string) {
	t.Helper()
	must(t, os.Symlink(target, filepath.Join(h.base, name)))
}

// TestFind checks where a path leads, and where the walk to it stops.
func TestFind(t *testing.T) {
	h := newHost(t)
	h.link(t, h.outside, "tree/out")
	h.link(t, "outside", "own")
	h.link(t, "tree", "to-tree")
	h.link(t, "tree/out/deep", "through")
	h.link(t, "..", "outside/up")
	h.link(t, "loop", "loop")
	t.Chdir(h.work + "/sub")
	for _, tt := range []struct{ path, top, rest string }{
		{h.outside, "", h.outside},
		{h.base + "/own/deep/../key", "", h.outside + "/key"},
		{h.base + "/own/up/outside//./key", "", h.outside + "/key"},
		{h.base + "/tree/../outside", "", h.outside},
		{h.base + "/tree/sub/../../outside", h.work, "sub/../../outside"},
		{h.work, h.work, "."},
		{h.work + "/", h.work, "."},
		{h.base + "/to-tree/out", h.work, "out"},
		{h.base + "/through/x", h.work, "out/deep/x"},
		{"mine", h.work, "sub/mine"},
		{"../../outside/key", "", h.outside + "/key"},
		{"", h.work, "sub"},
		{"/proc/self/cwd/mine", h.work, "sub/mine"},
		{"/proc/self/root" + h.outside, "", h.outside},
		{"/../.." + h.outside, "", h.outside},
	} {
		p, err := h.guard(t).Find(tt.path)
		if err != nil || p.Top != tt.top || p.Rest != tt.rest {
			t.Errorf("%s: %q, %q, %v; want %q, %q", tt.path, p.Top, p.Rest, err, tt.top, tt.rest)
		}
	}
	for path, want := range map[string]error{
		h.base + "/none": fs.ErrNotExist, h.base + "/loop": unix.ELOOP, h.outside + "/key/x": unix.ENOTDIR, h.outside + "/key/": unix.ENOTDIR,
	} {
		if _, err := h.guard(t).Find(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// TestOpenRefusesLinks checks that no link in a directory that a sandbox writes to leads out of it, and
// that the error tells where the link leads.
func TestOpenRefusesLinks(t *testing.T) {
	h := newHost(t)
	h.link(t, h.outside, "tree/abs")
	h.link(t, "../outside", "tree/rel")
	h.link(t, "rel/key", "tree/twice")
	h.link(t, "/proc/self/root"+h.outside, "tree/proc")
	h.link(t, "mine", "tree/inner")
	h.link(t, "tree/twice", "named")
	for _, path := range []string{"tree/abs/key", "tree/rel/key", "tree/twice", "tree/proc/key", "tree/sub/../abs/key", "named", "tree/sub/../../outside/key"} {
		_, err := h.guard(t).ReadFile(filepath.Join(h.base)+"/"+path, 100)
		if !errors.Is(err, spec.ErrDenied) || spec.Hint(err) == "" {
			t.Errorf("%s: %v (%s)", path, err, spec.Hint(err))
		}
	}
	if _, err := h.guard(t).Real(h.work + "/rel"); err == nil || !strings.Contains(err.Error(), h.outside) || !strings.Contains(spec.Hint(err), h.outside) {
		t.Errorf("%v (%s) does not say where the link leads", err, spec.Hint(err))
	}
	for _, path := range []string{"tree/mine", "tree/inner", "tree/sub/../mine"} {
		if text, err := h.guard(t).ReadFile(h.base+"/"+path, 100); err != nil || string(text) != "mine" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if real, err := h.guard(t).Real(h.work + "/inner"); err != nil || real != h.work+"/mine" {
		t.Errorf("%s, %v", real, err)
	}
}

// TestOpenPipe checks that files that the caller's shell has open can be read, such as <(command).
func TestOpenPipe(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	_, err = w.WriteString("A=1\n")
	must(t, err)
	must(t, w.Close())
	f, err := newHost(t).guard(t).Open(fmt.Sprintf("/dev/fd/%d", r.Fd()))
	must(t, err)
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "A=1\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestOpenRace checks that nothing outside is read if a directory and a link are exchanged while paths
// through them are opened.
func TestOpenRace(t *testing.T) {
	h := newHost(t)
	must(t, os.Mkdir(h.work+"/d", 0o755))
	must(t, os.WriteFile(h.work+"/d/key", []byte("mine"), 0o600))
	h.link(t, h.outside, "tree/l")
	var done sync.WaitGroup
	stop := make(chan struct{})
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, h.work+"/d", unix.AT_FDCWD, h.work+"/l", unix.RENAME_EXCHANGE)
			}
		}
	})
	g, read := h.guard(t), 0
	for range 20_000 {
		text, err := g.ReadFile(h.work+"/d/key", 100)
		if err == nil {
			read++
		}
		if err == nil && string(text) != "mine" {
			t.Errorf("read %q", text)
			break
		}
		if real, err := g.Real(h.work + "/d"); err == nil && !strings.HasPrefix(real, h.work) {
			t.Errorf("it is at %s", real)
			break
		}
	}
	close(stop)
	done.Wait()
	t.Logf("%d of 20000 were read", read)
}

// TestFormer checks that a directory is recognised after it was moved and after its sandbox was removed,
// and that another one at its path is not taken for it.
func TestFormer(t *testing.T) {
	h := newHost(t)
	s, err := store.Open(filepath.Join(h.base, "state"))
	must(t, err)
	found, err := LookUp(h.work)
	must(t, err)
	must(t, Remember(context.Background(), s, []Record{{h.work, Found(*found)}}))
	must(t, os.Symlink(h.outside, h.work+"/out"))
	denied := func(path string) bool {
		g, err := Load(s)
		must(t, err)
		_, err = g.Real(path)
		return errors.Is(err, spec.ErrDenied)
	}
	if !denied(h.work + "/out") {
		t.Error("the link is followed, although a sandbox that was removed may have made it")
	}
	must(t, os.Rename(h.work, h.work+".bak"))
	if !denied(h.work + ".bak/out") {
		t.Error("the link is followed where the directory was moved to")
	}
	must(t, os.Mkdir(h.work, 0o755))
	must(t, os.Symlink(h.outside, h.work+"/out"))
	if denied(h.work + "/out") {
		t.Error("another directory at the same path is taken for the one that a sandbox wrote to")
	}
}

// TestRecord checks that the record is bounded, and that a damaged one is an error.
func TestRecord(t *testing.T) {
	h := newHost(t)
	s, err := store.Open(filepath.Join(h.base, "state"))
	must(t, err)
	var many []Record
	for i := range manyDirectories {
		many = append(many, Record{filepath.Join(h.base, "gone", string(rune('a'+i%26))), Identity{Device: 1, Inode: uint64(i + 1)}})
	}
	ctx := context.Background()
	must(t, Remember(ctx, s, many))
	found, err := LookUp(h.work)
	must(t, err)
	must(t, Remember(ctx, s, []Record{{h.work, Found(*found)}}))
	list, err := ReadRecord(s)
	if err != nil || len(list) != 1 || list[0].Path != h.work {
		t.Errorf("%v, %v", list, err)
	}
	before, err := os.Stat(s.Written())
	must(t, err)
	must(t, Remember(ctx, s, []Record{{h.work, Found(*found)}}))
	if after, err := os.Stat(s.Written()); err != nil || !os.SameFile(before, after) {
		t.Error("a directory that is known is written again")
	}
	for _, text := range []string{"{", `{"version":2}`} {
		must(t, os.WriteFile(s.Written(), []byte(text), 0o600))
		if _, err := Load(s); err == nil || spec.Hint(err) == "" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestProgram checks that no program is started that a sandbox may have written, however it is found.
func TestProgram(t *testing.T) {
	h := newHost(t)
	script := func(path, head string) string {
		path = filepath.Join(h.base, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(head+"\necho ok\n"), 0o755))
		return path
	}
	evil := script("tree/node_modules/.bin/tool", "#!/bin/sh")
	good := script("good/tool", "#!/bin/sh")
	script("viascript/tool", "#!"+evil)
	script("relative/tool", "#!node_modules/.bin/tool")
	must(t, os.Mkdir(h.base+"/linked", 0o755))
	h.link(t, evil, "linked/tool")
	h.link(t, "tree/node_modules/.bin", "linkdir")
	h.link(t, h.base+"/good", "tree/back")
	g := func() *Guard { return h.guard(t) }
	t.Chdir(h.work + "/node_modules/.bin")
	for _, dir := range []string{h.work + "/node_modules/.bin", h.base + "/linked", h.base + "/linkdir", h.base + "/viascript", h.base + "/relative", h.work + "/back", ".", "", "../.bin", h.base + "/good/../tree/node_modules/.bin"} {
		t.Setenv("PATH", dir+":"+h.base+"/good")
		if got, err := g().Program("tool"); err != nil || got != good {
			t.Errorf("PATH %s: %s, %v; want %s", dir, got, err, good)
		}
		t.Setenv("PATH", dir)
		if got, err := g().Program("tool"); err == nil {
			t.Errorf("PATH %s: %s", dir, got)
		} else if filepath.IsAbs(dir) && !errors.Is(err, spec.ErrDenied) {
			t.Errorf("PATH %s: %v", dir, err)
		}
	}
	for _, path := range []string{evil, "./tool", "tool/../tool", h.base + "/linked/tool"} {
		if _, err := g().Program(path); strings.Contains(path, "/") && !errors.Is(err, spec.ErrDenied) && !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s: %v", path, err)
		}
	}
	t.Setenv("PATH", strings.Join([]string{h.work + "/node_modules/.bin", h.base + "/linkdir", "", ".", h.base + "/good", "/usr/bin", h.work + "/later"}, ":"))
	if got, want := g().Path(), h.base+"/good:/usr/bin"; got != want {
		t.Errorf("PATH is %s, not %s", got, want)
	}
	if _, err := g().Program("no-such-tool"); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
}

// TestBindMount checks that a directory is recognised at another path: whole, and a part of it.
func TestBindMount(t *testing.T) {
	if os.Getenv("BOTHY_TEST_BIND") == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestBindMount$", "-test.v")
		cmd.Env = append(os.Environ(), "BOTHY_TEST_BIND=1")
		cmd.SysProcAttr = ownMounts()
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "operation not permitted") && err != nil && !strings.Contains(string(out), "FAIL") {
			t.Skip("no mount namespaces here")
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	must(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
	h := newHost(t)
	must(t, os.MkdirAll(h.work+"/sub/below", 0o755))
	h.link(t, h.outside, "tree/sub/out")
	h.link(t, h.outside, "tree/sub/below/out")
	for alias, source := range map[string]string{"a": h.work, "b": h.work + "/sub", "c": h.work + "/sub/below", "d": h.base} {
		at := filepath.Join(h.outside, alias)
		must(t, os.Mkdir(at, 0o755))
		must(t, unix.Mount(source, at, "", unix.MS_BIND, ""))
		defer func() { must(t, unix.Unmount(at, unix.MNT_DETACH)) }()
	}
	for _, path := range []string{"a/sub/out/key", "b/out/key", "c/out/key", "b/below/out/key", "d/tree/sub/out/key"} {
		if _, err := h.guard(t).ReadFile(h.outside+"/"+path, 100); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, want := range map[string]bool{"a": true, "b": true, "c/x/..": true, "deep": false, "d": false, "d/tree": true} {
		_ = os.Mkdir(h.work+"/sub/below/x", 0o755)
		if got, err := Below(h.work, h.outside+"/"+path); err != nil || got != want {
			t.Errorf("%s is below: %v, %v; want %v", path, got, err, want)
		}
	}
}

func ownMounts() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return a
}

// TestReplaced checks that another directory at a path is distinguished from the one that was mounted.
func TestReplaced(t *testing.T) {
	h := newHost(t)
	was, err := LookUp(h.work)
	must(t, err)
	want := func(what string) {
		t.Helper()
		if got := Replaced(*was); got != what {
			t.Errorf("it %q, not %q", got, what)
		}
	}
	want("")
	must(t, os.WriteFile(h.work+"/more", nil, 0o600))
	want("")
	must(t, os.Rename(h.work, h.work+".bak"))
	want("is gone")
	must(t, os.Mkdir(h.work, 0o755))
	want("is another directory now")
	must(t, os.Remove(h.work))
	h.link(t, "tree.bak", "tree")
	want("leads elsewhere now")
	must(t, os.Remove(h.work))
	must(t, os.WriteFile(h.work, nil, 0o600))
	want("is a file now")
	must(t, os.Remove(h.work))
	must(t, os.Rename(h.work+".bak", h.work))
	want("")
}
