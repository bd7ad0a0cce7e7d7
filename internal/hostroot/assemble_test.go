package hostroot

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/spec"
)

func assemble(t testing.TB, s source, o Options) (string, *Host) {
	t.Helper()
	needNamespace(t)
	h := prepare(t, s, newCache(t))
	dir := newRoot(t)
	if o.Hostname == "" {
		o.ID, o.Hostname = "0123456789ab", "box"
	}
	o.Program = testProgram
	must(t, h.Assemble(dir, o))
	return dir, h
}

// testProgram stands for the program that runs inside.
var testProgram, _ = os.Executable()

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	infoA, err := os.Stat(a)
	must(t, err)
	infoB, err := os.Stat(b)
	must(t, err)
	return os.SameFile(infoA, infoB)
}

func TestAssemble(t *testing.T) {
	s := fakeHost(t)
	dir, h := assemble(t, s, Options{Targets: []Target{{"/proj/project", true}, {"/proj/file", false}, {"/home/someone/inner", true}}})

	if got, want := list(t, dir), ".bothy bin boot dev etc home media mnt opt proc proj root run sbin srv sys tmp usr var"; got != want {
		t.Errorf("the root holds %s; want %s", got, want)
	}
	for path, want := range map[string]string{
		"home": "someone", "home/someone": "", "root": "", "run": "lock user", "tmp": "", "mnt": "", "proc": "", "sys": "", "dev": "", "proj": "file project",
		"var/log": "apt", "var/lib/apt/lists": "index partial", "var/lib/apt/lists/partial": "", ".bothy/bin": "sudo",
	} {
		if got := list(t, filepath.Join(dir, path)); got != want {
			t.Errorf("/%s holds %q; want %q", path, got, want)
		}
	}
	for path, want := range map[string]string{
		"bin": "usr/bin", "sbin": "/usr/sbin", "var/run": "/run", ".bothy/bin/sudo": "../guest", "etc/mtab": "/proc/self/mounts",
	} {
		if got, _ := os.Readlink(filepath.Join(dir, path)); got != want {
			t.Errorf("/%s leads to %q; want %q", path, got, want)
		}
	}
	for path, want := range map[string]string{
		"usr/bin/tool": "tool", "usr/local/bin/mine": "mine", "opt/vendor/app": "app", "etc/services": "ssh 22/tcp\n",
		"etc/hostname": "box\n", "etc/hosts": "127.0.0.1 localhost box\n::1 localhost ip6-localhost ip6-loopback\n",
		"etc/resolv.conf": "# This sandbox has no network.\n", "var/lib/dpkg/status": "Package: tool\n", "var/lib/dpkg/lock": "", "proj/file": "",
		"etc/passwd": string(s.passwdFile(someone)), "etc/group": string(s.groupFile(someone)),
	} {
		got := read(t, filepath.Join(dir, path))
		if got != want {
			t.Errorf("/%s: %q; want %q", path, got, want)
		}
	}
	for path, want := range map[string]os.FileMode{
		".": 0o755, "tmp": 0o1777, "var/tmp": 0o1777, "run/lock": 0o1777, "root": 0o755, "proj": 0o755, "proj/project": 0o755, "proj/file": 0o644, ".bothy": 0o755, "etc": 0o755, "etc/profile.d": 0o755, "etc/passwd": 0o644,
	} {
		var st unix.Stat_t
		must(t, unix.Stat(filepath.Join(dir, path), &st))
		if got := os.FileMode(st.Mode & 0o7777); got != want {
			t.Errorf("/%s has mode %o; want %o", path, got, want)
		}
	}
	if id := read(t, dir+"/etc/machine-id"); len(id) != 33 {
		t.Errorf("machine-id: %q", id)
	}
	if !sameFile(t, testProgram, filepath.Join(dir, ".bothy/guest")) {
		t.Error("/.bothy/guest is not this program")
	}
	if gaps := strings.Join(h.Gaps(), "\n"); !strings.Contains(gaps, "/snap is missing inside, because on the host it is a link to /home/victim") {
		t.Errorf("gaps: %s", gaps)
	}
	if gaps := strings.Join(h.Gaps(), "\n"); strings.Contains(gaps, "files below /usr, /opt that only root may read") != mappedToRoot() {
		t.Errorf("gaps of root: %v: %s", mappedToRoot(), gaps)
	}
}

// TestNothingOfTheHostCanBeReached walks the whole tree.
func TestNothingOfTheHostCanBeReached(t *testing.T) {
	s := fakeHost(t)
	dir, _ := assemble(t, s, Options{Targets: []Target{{"/data", true}}})
	files := 0
	walk(t, dir, func(p string, d fs.DirEntry) {
		rel := strings.TrimPrefix(p, dir)
		if d.Type()&(fs.ModeSocket|fs.ModeDevice|fs.ModeNamedPipe) != 0 {
			t.Errorf("%s is %v", rel, d.Type())
		}
		if !d.Type().IsRegular() || rel == "/.bothy/guest" {
			return
		}
		files++
		if strings.Contains(read(t, p), "CANARY") {
			t.Errorf("%s can be read inside", rel)
		}
		if strings.HasPrefix(rel, "/.bothy/etc/") || strings.HasPrefix(rel, trust.Dir+"/") {
			return // in the tmpfs
		}
		if f, err := os.OpenFile(p, os.O_WRONLY, 0); !errors.Is(err, unix.EROFS) {
			_ = f.Close()
			t.Errorf("open %s for writing: %v", rel, err)
		}
		if err := os.Chmod(p, 0o777); !errors.Is(err, unix.EROFS) {
			t.Errorf("chmod %s: %v", rel, err)
		}
	})
	if files < 15 {
		t.Errorf("only %d files were looked at", files)
	}
	for _, p := range []string{"usr", "usr/bin", "opt", "etc", "etc/profile.d", "var/lib/dpkg", "var/lib/apt/lists/partial"} {
		if err := os.WriteFile(filepath.Join(dir, p, "new"), nil, 0o644); !errors.Is(err, unix.EROFS) {
			t.Errorf("make a file in /%s: %v", p, err)
		}
		if err := os.Mkdir(filepath.Join(dir, p, "newdir"), 0o755); !errors.Is(err, unix.EROFS) {
			t.Errorf("make a directory in /%s: %v", p, err)
		}
	}
	mounts, err := readMounts()
	must(t, err)
	for _, m := range mountsBelow(mounts, dir) {
		var fs unix.Statfs_t
		must(t, unix.Statfs(m.point, &fs))
		if want := int64(unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV); fs.Flags&want != want {
			t.Errorf("%s is mounted with flags %x", m.point, fs.Flags)
		}
	}
}

func TestAssembleThisHost(t *testing.T) {
	needNamespace(t)
	h, err := Prepare(newCache(t), someone)
	must(t, err)
	defer release(t, h)
	dir := newRoot(t)
	must(t, h.Assemble(dir, Options{Program: testProgram, ID: "1", Hostname: "h"}))
	for _, p := range []string{"/bin/sh", "/usr/bin/env"} {
		if _, err := os.Lstat(dir + p); err != nil {
			if target, linkErr := os.Readlink(dir + filepath.Dir(p)); linkErr != nil || !exists(filepath.Join(dir, target, filepath.Base(p))) {
				t.Error(err)
			}
		}
	}
	for _, p := range []string{"/home", "/root", "/run", "/tmp", "/var/log", "/mnt"} {
		walk(t, dir+p, func(p string, d fs.DirEntry) {
			if !d.IsDir() {
				t.Errorf("%s is there", p)
			}
		})
	}
	t.Logf("gaps: %q", h.Gaps())
}

func TestAssembleTwoSandboxes(t *testing.T) {
	s := fakeHost(t)
	needNamespace(t)
	h := prepare(t, s, newCache(t))
	a, b := newRoot(t), newRoot(t)
	must(t, h.Assemble(a, Options{Program: testProgram, ID: "a", Hostname: "a"}))
	must(t, h.Assemble(b, Options{Program: testProgram, ID: "b", Hostname: "b"}))
	if read(t, a+"/etc/machine-id") == read(t, b+"/etc/machine-id") || read(t, a+"/etc/hostname") == read(t, b+"/etc/hostname") {
		t.Error("two sandboxes have one identity")
	}
}

func TestAssembleRefuses(t *testing.T) {
	s := fakeHost(t)
	needNamespace(t)
	h := prepare(t, s, newCache(t))
	o := Options{Program: testProgram, ID: "1", Hostname: "h"}
	onDisk := t.TempDir()
	var disk unix.Statfs_t
	must(t, unix.Statfs(onDisk, &disk))
	if disk.Type != unix.TMPFS_MAGIC {
		if err := h.Assemble(onDisk, o); err == nil {
			t.Error("assembled on disk")
		}
		if list(t, onDisk) != "" {
			t.Error("something was made on disk")
		}
	}
	dir := newRoot(t)
	must(t, os.WriteFile(dir+"/x", nil, 0o644))
	if err := h.Assemble(dir, o); err == nil {
		t.Error("assembled over something")
	}
	must(t, os.Remove(dir+"/x"))
	for _, name := range []string{"", "a b", "a\n127.0.0.1 b", "-a", strings.Repeat("a", 65)} {
		if err := h.Assemble(dir, Options{Program: testProgram, ID: "1", Hostname: name}); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("host name %q: %v", name, err)
		}
	}
	o.Program = filepath.Join(t.TempDir(), "nowhere")
	if err := h.Assemble(dir, o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
}

func TestHostWithoutMergedUsr(t *testing.T) {
	s := fakeHost(t)
	must(t, os.Remove(s.path("/bin")))
	put(t, s, "/bin/sh", "sh", 0o755)
	put(t, s, "/lib64/ld.so", "ld", 0o755)
	must(t, os.Remove(s.path("/sbin")))
	put(t, s, "/sbin", "a file", 0o755)
	put(t, s, "/nix/store/tool", "nix", 0o755)
	put(t, s, "/nix/var/nix/daemon-socket/socket", "CANARY", 0o755)
	must(t, os.Chmod(s.path("/opt"), 0o750))
	dir, h := assemble(t, s, Options{})
	for path, want := range map[string]string{"bin/sh": "sh", "lib64/ld.so": "ld", "nix/store/tool": "nix"} {
		if got := read(t, filepath.Join(dir, path)); got != want {
			t.Errorf("/%s: %q", path, got)
		}
	}
	if got := list(t, dir+"/nix"); got != "store" {
		t.Errorf("/nix holds %s", got)
	}
	if list(t, dir+"/opt") != "" || exists(dir+"/sbin") {
		t.Error("a closed /opt or an odd /sbin is visible")
	}
	if gaps := strings.Join(h.Gaps(), "\n"); !strings.Contains(gaps, "/opt is missing inside") {
		t.Errorf("gaps: %s", gaps)
	}
}

func TestUsrThatIsNoDirectory(t *testing.T) {
	needNamespace(t)
	for name, plant := range map[string]func(s source){
		"missing": func(source) {},
		"link":    func(s source) { symlink(t, s, "/home/victim", "/usr") },
		"file":    func(s source) { put(t, s, "/usr", "x", 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			s := source{root: t.TempDir()}
			put(t, s, "/etc/x", "", 0o644)
			plant(s)
			err := prepare(t, s, newCache(t)).Assemble(newRoot(t), Options{Program: testProgram, ID: "1", Hostname: "h"})
			if !errors.Is(err, spec.ErrSandbox) || spec.Hint(err) == "" {
				t.Error(err)
			}
		})
	}
}

// TestMountsBelowPrograms uses a host with file systems below /usr.
func TestMountsBelowPrograms(t *testing.T) {
	needNamespace(t)
	s := fakeHost(t)
	plantMounts(t, s)
	dir, _ := assemble(t, s, Options{})
	checkMounts(t, dir)
}

// TestLockedMountsBelowPrograms does the same in a mount namespace that got these mounts from outside,
// like a keeper's: the kernel keeps them together.
func TestLockedMountsBelowPrograms(t *testing.T) {
	needNamespace(t)
	if root := os.Getenv("BOTHY_TEST_TEMPLATE_LOCKED"); root != "" {
		dir, _ := assemble(t, source{root: root}, Options{})
		checkMounts(t, dir)
		return
	}
	s := fakeHost(t)
	plantMounts(t, s)
	cmd := again("-test.run=^TestLockedMountsBelowPrograms$")
	cmd.Env = append(cmd.Env, "BOTHY_TEST_TEMPLATE_LOCKED="+s.root)
	// A second user namespace that maps the ids of this one to themselves.
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func plantMounts(t *testing.T, s source) {
	t.Helper()
	local := s.path("/usr/local")
	must(t, unix.Mount("local", local, "tmpfs", unix.MS_NOEXEC|unix.MS_NOATIME, ""))
	t.Cleanup(func() { must(t, unix.Unmount(local, unix.MNT_DETACH)) })
	put(t, s, "/usr/local/a b/file", "on another file system", 0o644)
	must(t, os.Mkdir(local+"/state", 0o755))
	must(t, unix.Mount("state", local+"/state", "ramfs", 0, ""))
	put(t, s, "/usr/local/state/x", "CANARY", 0o644)
	l, err := net.Listen("unix", s.path("/usr/local/state/s"))
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	put(t, s, "/usr/bin/socket", "", 0o755)
	must(t, unix.Mount(s.path("/usr/local/state/s"), s.path("/usr/bin/socket"), "", unix.MS_BIND, ""))
	put(t, s, "/usr/bin/null", "", 0o755)
	must(t, unix.Mount("/dev/null", s.path("/usr/bin/null"), "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		must(t, unix.Unmount(s.path("/usr/bin/socket"), unix.MNT_DETACH))
		must(t, unix.Unmount(s.path("/usr/bin/null"), unix.MNT_DETACH))
	})
}

func checkMounts(t *testing.T, dir string) {
	t.Helper()
	if got := read(t, dir+"/usr/local/a b/file"); got != "on another file system" {
		t.Errorf("file: %q", got)
	}
	if got := list(t, dir+"/usr/local/state"); got != "" {
		t.Errorf("/usr/local/state holds %s", got)
	}
	for _, name := range []string{"socket", "null"} {
		if info, err := os.Lstat(dir + "/usr/bin/" + name); err != nil || !info.Mode().IsRegular() {
			t.Errorf("/usr/bin/%s is %v, %v", name, info.Mode(), err)
		}
	}
	for _, p := range []string{"/usr", "/usr/local", "/usr/local/state"} {
		if err := os.WriteFile(dir+p+"/new", nil, 0o644); !errors.Is(err, unix.EROFS) {
			t.Errorf("write to %s: %v", p, err)
		}
	}
}

// TestSealEach covers kernels without mount_setattr.
func TestSealEach(t *testing.T) {
	needNamespace(t)
	s := fakeHost(t)
	plantMounts(t, s)
	mounts, err := readMounts()
	must(t, err)
	src, dst := s.path("/usr"), newRoot(t)
	must(t, unix.Mount(src, dst, "", unix.MS_BIND|unix.MS_REC, ""))
	t.Cleanup(func() { must(t, unix.Unmount(dst, unix.MNT_DETACH)) })
	must(t, sealEach(dst, moveMounts(mountsBelow(mounts, src), src, dst)))
	for p, want := range map[string]int64{"": 0, "/local": unix.ST_NOEXEC | unix.ST_NOATIME, "/local/state": 0} {
		if err := os.WriteFile(dst+p+"/new", nil, 0o644); !errors.Is(err, unix.EROFS) {
			t.Errorf("write to %s: %v", p, err)
		}
		var fs unix.Statfs_t
		must(t, unix.Statfs(dst+p, &fs))
		want |= unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV
		if fs.Flags&want != want {
			t.Errorf("%s is mounted with flags %x; want %x", p, fs.Flags, want)
		}
	}
}

func TestParseMounts(t *testing.T) {
	table := `22 27 0:21 / /proc rw,relatime - proc proc rw
31 27 8:1 /a /usr/with\040blank\134\011 ro,idmapped master:3 shared:1 - ext4 /dev/sda1 rw
garbage
32 27 8:1 / /usr rw - ext4
`
	got := parseMounts(table)
	want := []mount{{"/proc", "proc", false}, {"/usr/with blank\\\t", "ext4", true}, {"/usr", "ext4", false}}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("got %+v; want %+v", got[i], want[i])
		}
	}
	if n := len(mountsBelow(got, "/usr")); n != 1 {
		t.Errorf("%d mounts below /usr", n)
	}
}
