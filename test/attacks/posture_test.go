package attacks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestPosture checks the processes of a running sandbox from the host: capabilities, seccomp, identity
// maps, namespaces, programs. F12, F13, F15.
func TestPosture(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "run", "-d", "--name", "box", "shell", ".", "--", "sleep", "1000")
		m := c.Machine(t, "box")
		self, err := os.Readlink("/proc/self/ns/user")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []struct {
			name string
			pid  int
			caps string // exactly
		}{{"sentry", m.Sentry, "0000000000000000"}, {"gofer", m.Gofer, "000000000004001f"}} {
			for field, want := range map[string]string{"CapEff": p.caps, "CapPrm": p.caps, "CapInh": "", "CapAmb": "", "CapBnd": "", "NoNewPrivs": "1", "Seccomp": "2"} {
				got := harness.Status(p.pid, field)
				if want == "" && strings.Trim(got, "0") == "" || want == got {
					continue
				}
				if want == "" && p.name == "gofer" && field != "CapBnd" {
					continue // it may also inherit its capabilities; it executes no program
				}
				t.Errorf("%s: %s is %s, not %s", p.name, field, got, want)
			}
		}
		// gVisor's own filter, and the one that leaves CPUID to the processor: without it a sandbox
		// takes twice as long to start a program.
		if n := harness.Status(m.Sentry, "Seccomp_filters"); runtime.GOARCH == "amd64" && n != "" && n != "2" {
			t.Errorf("sentry: %s filters, not 2", n)
		}
		for _, pid := range tree(m.Keeper) {
			who := fmt.Sprintf("process %d %q", pid, name0(pid))
			for _, file := range []string{"uid_map", "gid_map"} {
				b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
				if err != nil {
					t.Errorf("%s: %v", who, err)
					continue
				}
				id := c.UID
				if file == "gid_map" {
					id = c.GID
				}
				f := strings.Fields(string(b))
				if len(f) != 3 || f[0] == "0" || f[1] != strconv.Itoa(id) || f[2] != "1" {
					t.Errorf("%s: %s is %q: not one id, or mapped to zero", who, file, b)
				}
			}
			if uid := strings.Fields(harness.Status(pid, "Uid")); len(uid) != 4 || uid[0] != strconv.Itoa(c.UID) || uid[1] != uid[0] || uid[2] != uid[0] || uid[3] != uid[0] {
				t.Errorf("%s: uids are %v", who, uid)
			}
			if groups := harness.Status(pid, "Groups"); c.UID == 0 && groups != "" && groups != "0" {
				t.Logf("%s: groups %s", who, groups)
			}
			ns, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
			if ns == self {
				t.Errorf("%s is in the host's user namespace", who)
			}
			exe, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
			want, werr := os.Stat(harness.Beside(c.Binary, "bothy-keeper"))
			if err == nil && werr == nil && !os.SameFile(exe, want) {
				target, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
				t.Errorf("%s executes %s: no program but bothy-keeper belongs here", who, target)
			}
			if limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid)); err != nil || !noCore.Match(limits) {
				t.Errorf("%s may write a core file: %s %v", who, limits, err)
			}
			if pid == m.Keeper {
				continue
			}
			for _, space := range []string{"mnt", "pid", "net", "ipc", "uts"} {
				theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, space))
				ours, _ := os.Readlink("/proc/self/ns/" + space)
				if theirs == ours {
					t.Errorf("%s is in the host's %s namespace", who, space)
				}
			}
			dev, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", pid))
			if err != nil || strings.Count(string(dev), ":") > 1 {
				t.Errorf("%s has network interfaces: %s %v", who, dev, err)
			}
		}
		if info, err := os.Stat(c.Binary); err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("bothy is set-uid: %v %v", info, err)
		}
	})
}

// noCore matches /proc/PID/limits if no core file is written or passed to a program of the host.
var noCore = regexp.MustCompile(`(?m)^Max core file size +1 +1 `)

// tree lists a process and all below it.
func tree(root int) []int {
	list := []int{root}
	all := harness.Processes()
	for i := 0; i < len(list); i++ {
		for _, p := range all {
			if p.PPID == list[i] {
				list = append(list, p.PID)
			}
		}
	}
	return list
}

func name0(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	a, _, _ := strings.Cut(string(b), "\x00")
	return a
}

// TestDescriptors lists the open descriptors of the sentry and the gofer: none of the caller's, no
// terminal, no device but /dev/null, no socket with an address, no file except those of the sandbox. F1,
// F11, F15.
func TestDescriptors(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		// The caller's command has a file, a terminal and a socket open.
		file, err := os.Create(filepath.Join(c.Home, "inherited"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer ptmx.Close()
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		sock := os.NewFile(uintptr(pair[0]), "socket")
		defer sock.Close()
		defer unix.Close(pair[1])
		ctx := t.Context()
		cmd := c.Command(ctx, "run", "-d", "--name", "box", "shell", ".", "--", "sleep", "1000")
		cmd.ExtraFiles = []*os.File{file, ptmx, sock, file}
		if r := harness.Finish(ctx, cmd, cmd.Args); r.Code != 0 {
			t.Fatalf("%v", r)
		}
		inherited := map[string]bool{file.Name(): true, "/dev/ptmx": true, fmt.Sprintf("socket:[%d]", inode(t, sock)): true}

		// And a program with every kind of stream runs inside while we look.
		in, err := os.Open("/dev/zero")
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		attached := c.Command(ctx, "exec", "-i", "box", "sleep", "1000")
		attached.Stdin, attached.Stdout, attached.Stderr = in, file, ptmx
		if err := attached.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = attached.Process.Kill(); _ = attached.Wait() }()
		harness.WaitFor(t, harness.Timeout, "the second session", func() bool { return len(c.Inspect(t, "box").Sessions) == 2 })

		m := c.Machine(t, "box")
		points := mountIDs(t, m.Gofer)
		for _, p := range []struct {
			name string
			pid  int
		}{{"keeper", m.Keeper}, {"sentry", m.Sentry}, {"gofer", m.Gofer}} {
			dir := fmt.Sprintf("/proc/%d/fd", p.pid)
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				path := filepath.Join(dir, e.Name())
				target, err := os.Readlink(path)
				if err != nil {
					continue // closed meanwhile
				}
				if inherited[target] {
					t.Errorf("%s: descriptor %s is the caller's own %s", p.name, e.Name(), target)
				}
				if why := unexpected(c, p.name, p.pid, e.Name(), target, points); why != "" {
					t.Errorf("%s: descriptor %s -> %s: %s", p.name, e.Name(), target, why)
				}
			}
		}
	})
}

func inode(t *testing.T, f *os.File) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// unexpected describes the problem with a descriptor of the wall, if it has one.
func unexpected(c *harness.Caller, who string, pid int, fd, target string, points map[string]bool) string {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%s", pid, fd), &st); err != nil {
		return ""
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		if st.Rdev != unix.Mkdev(1, 3) {
			return fmt.Sprintf("a device, %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
		}
	case unix.S_IFBLK:
		return "a block device"
	case unix.S_IFSOCK:
		return strangeSocket(pid, fd, st.Ino, who == "keeper")
	case unix.S_IFREG, unix.S_IFDIR:
		if who == "keeper" || strings.HasPrefix(target, "/memfd:") || strings.HasPrefix(target, "anon_inode:") {
			return ""
		}
		clean := strings.TrimSuffix(target, " (deleted)")
		own := filepath.Join(c.State, "sandboxes")
		for _, ok := range []string{"/layers/runsc-filestore-", "/log/panic.log", "/scratch/wall/bundle/config.json"} {
			if strings.HasPrefix(clean, own) && strings.Contains(clean, ok) {
				return ""
			}
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(fmt.Sprintf("/proc/%d/fd/%s", pid, fd), &fs); err == nil && fs.Type == unix.PROC_SUPER_MAGIC && who == "gofer" {
			return "" // of its own pid namespace
		}
		if id := field(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd), "mnt_id"); !points[id] {
			return "a file on mount " + id + ", which is no part of the sandbox's tree"
		}
	}
	return ""
}

// strangeSocket describes the problem with a socket. The socket may be closed before the kernel's table
// is read, such as one over which the keeper has just answered. The table may lack a socket while others
// come and go.
func strangeSocket(pid int, fd string, ino uint64, listens bool) (why string) {
	for range 10 {
		found := false
		if found, why = namedSocket(pid, ino, listens); found {
			return why
		}
		var st unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%s", pid, fd), &st); err != nil || st.Ino != ino {
			return ""
		}
	}
	return "a socket that is no unix socket"
}

// namedSocket looks for a unix socket, and describes its problem: it must be one of a pair.
func namedSocket(pid int, ino uint64, listens bool) (found bool, why string) {
	for _, table := range []string{"/proc/net/unix", fmt.Sprintf("/proc/%d/net/unix", pid)} {
		b, _ := os.ReadFile(table)
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 7 || f[6] != strconv.FormatUint(ino, 10) {
				continue
			}
			found = true
			// The sentry's control socket, which the keeper made for it, has a name that only the
			// keeper's mount namespace knows.
			if len(f) > 7 && !(listens && strings.HasSuffix(f[7], ".control.sock")) && !strings.Contains(f[7], "/scratch/wall/state/runsc-") {
				return true, "a unix socket with the address " + f[7]
			}
		}
	}
	return found, ""
}

func field(file, name string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// mountIDs returns the mounts that a process sees.
func mountIDs(t *testing.T, pid int) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		ids[strings.Fields(line)[0]] = true
	}
	return ids
}

// TestEnvironmentStaysOutside plants a secret in the environment of every command: it is in no process
// of the sandbox, no file of the state directory, and not inside. F8, F13.
func TestEnvironmentStaysOutside(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		k := &canaries{mark: newMark()}
		for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "LD_PRELOAD", "GODEBUG_X", "http_proxy", "GVISOR_METRICS"} {
			c.Env = append(c.Env, name+"=/nonexistent/"+k.mark)
		}
		out := c.Must(t, "run", "-d", "--name", "box", "shell", ".", "--", "sleep", "1000")
		out += c.Must(t, "exec", "box", "env")
		out += c.Sh("box", "root", "env; cat /proc/*/environ /proc/*/cmdline /proc/cmdline").Stdout
		k.quiet(t, "inside", out)
		m := c.Machine(t, "box")
		for _, pid := range tree(m.Keeper) {
			for _, f := range []string{"environ", "cmdline"} {
				b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, f))
				if err != nil {
					t.Errorf("process %d: %v", pid, err)
				}
				k.quiet(t, fmt.Sprintf("%s of process %d", f, pid), string(b))
			}
		}
		// It is also not in the memory that root's debugger can read: the keeper is started without
		// it.
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", m.Keeper)); err != nil || len(strings.Trim(string(b), "\x00")) != 0 {
			t.Errorf("the keeper began with an environment: %q %v", b, err)
		}
		c.Must(t, "stop", "box")
		_ = filepath.WalkDir(c.State, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			f, err := os.Open(path)
			if err != nil {
				return nil
			}
			defer f.Close()
			b, _ := io.ReadAll(io.LimitReader(f, 1<<20))
			k.quiet(t, path, string(b))
			return nil
		})
	})
}

// TestA22HostOpensNothing checks that programs inside cannot start a program of the host, neither by
// opening a page in a browser nor by output to which terminals react.
func TestA22HostOpensNothing(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		bin, opened := filepath.Join(c.Home, "bin"), filepath.Join(c.Base, "opened")
		c.Mkdir(t, bin)
		openers := []string{"xdg-open", "sensible-browser", "x-www-browser", "www-browser", "open", "gio"}
		for _, name := range openers {
			path := c.Write(t, filepath.Join(bin, name), "#!/bin/sh\necho \"$0 $*\" >> "+opened+"\n")
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		c.Env = append(c.Env, "PATH="+bin+":/usr/bin:/bin", "BROWSER="+filepath.Join(bin, "open"), "DISPLAY=:0")
		const page = "https://evil.example/?told"
		script := "for p in " + strings.Join(openers, " ") + `; do "$p" ` + page + `; "$HOME/bin/$p" ` + page + `; ` + bin + `/"$p" ` + page + `; done; ${BROWSER:-false} ` + page +
			`; python3 -m webbrowser ` + page + `; printf '\033]8;;` + page + `\033\\here\033]8;;\033\\\033]1337;OpenURL=' ; echo tried`
		out := c.Must(t, "run", "--rm", "shell", ".", "--", "sh", "-c", script)
		if !strings.Contains(out, "tried") {
			t.Errorf("it did not try: %s", out)
		}
		if b, err := os.ReadFile(opened); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the host opened %q, %v", b, err)
		}
		if err := exec.Command(filepath.Join(bin, "open"), page).Run(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(opened); err != nil {
			t.Errorf("it would not have been seen: %v", err)
		}
	})
}

// TestHostileSidecars puts programs where gVisor would look for its own, and points it there with every
// variable it knows: none runs. gvisor.md §18, 5.
func TestHostileSidecars(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		bin := filepath.Join(c.Base, "bin")
		c.Mkdir(t, filepath.Join(bin, "gvisor-bin"))
		c.Binary = harness.CopyPrograms(t, c.Binary, bin)
		ran := filepath.Join(c.Home, "ran")
		evil := "#!/bin/sh\necho \"$0 $*\" >> " + ran + "\nexit 1\n"
		for _, dir := range []string{bin, filepath.Join(bin, "gvisor-bin"), c.Work} {
			for _, name := range []string{"gvisor_sentry", "gvisor_sentry_plugin_stack", "gvisor-sentry-prewarmer", "gvisor_gofer", "runsc", "runsc-sandbox", "runsc-gofer", "newuidmap", "newgidmap"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(evil), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.Env = append(c.Env, "GVISOR_SIDECAR_BINARIES_DIR="+filepath.Join(bin, "gvisor-bin"), "GVISOR_ENFORCE_RELEASE=SKIP",
			"GVISOR_METRICS="+filepath.Join(bin, "gvisor-bin"), "GVISOR_SAVE_RESTORE_AUTO_EXEC_MODE=x", "PATH="+bin+":"+c.Work+":/usr/bin:/bin",
			"TMPDIR="+c.Work, "XDG_RUNTIME_DIR="+c.Work)
		r := c.Run("run", "--name", "box", "shell", ".", "--", "echo", "alive")
		if b, err := os.ReadFile(ran); err == nil {
			t.Errorf("a hostile program ran on the host: %s", b)
		}
		if r.Code != 0 || r.Stdout != "alive\n" {
			t.Errorf("the sandbox did not start: %v", r)
		}
	})
}

// TestNoWallNoStart takes away the parts that the wall needs: the command fails with the code of a
// failed sandbox and runs nowhere else. F6, F7.
func TestNoWallNoStart(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		me := c.Plant(t, c.Base)
		ran := filepath.Join(c.Work, "ran")
		ctx := t.Context()
		cmd := c.Command(ctx, "exec", "box", "touch", ran)
		cmd.Path, cmd.Args = me, append([]string{me, "intruder", "nouserns"}, cmd.Args...)
		cmd.SysProcAttr = c.Namespaced()
		r := harness.Finish(ctx, cmd, cmd.Args)
		if r.Code == 98 || r.Code == 99 {
			harness.Missing(t, "user namespaces cannot be taken away here: %v", r)
		}
		if r.Code != 125 || !strings.Contains(r.Stderr, "bothy: hint:") {
			t.Errorf("want exit code 125 and a hint: %v", r)
		}
		if _, err := os.Lstat(ran); err == nil {
			t.Error("the command ran without a wall")
		}
		c.TidyState(t)
	})
}
