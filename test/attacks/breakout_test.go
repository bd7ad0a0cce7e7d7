package attacks

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// call makes a system call and prints its result.
func call(what string, nr uintptr, args ...uintptr) {
	var a [6]uintptr
	copy(a[:], args)
	r, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	fmt.Printf("%-24s %d %v\n", what, int(r), errno)
}

// breakout runs the classic set, F16. It prints each outcome, and leaves marks that only an escape
// would leave on the host. The mark is in its environment.
func breakout() {
	mark := os.Getenv("MARK")
	try := func(what string, err error) { fmt.Printf("%-24s %v\n", what, err) }
	dir, _ := os.MkdirTemp("", "breakout")
	// Devices, made and used.
	for _, d := range []struct {
		name string
		mode uint32
		dev  uint64
	}{
		{"sda", unix.S_IFBLK, unix.Mkdev(8, 0)},
		{"vda", unix.S_IFBLK, unix.Mkdev(254, 0)},
		{"vda1", unix.S_IFBLK, unix.Mkdev(253, 0)},
		{"nvme", unix.S_IFBLK, unix.Mkdev(259, 0)},
		{"loop", unix.S_IFBLK, unix.Mkdev(7, 0)},
		{"mem", unix.S_IFCHR, unix.Mkdev(1, 1)},
		{"port", unix.S_IFCHR, unix.Mkdev(1, 4)},
		{"kmsg", unix.S_IFCHR, unix.Mkdev(1, 11)},
		{"tty1", unix.S_IFCHR, unix.Mkdev(4, 1)},
		{"kvm", unix.S_IFCHR, unix.Mkdev(10, 232)},
	} {
		path := filepath.Join(dir, d.name)
		try("mknod "+d.name, unix.Mknod(path, d.mode|0o666, int(d.dev)))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			if f, err = os.Open(path); err != nil {
				try("open "+d.name, err)
				continue
			}
		}
		b := make([]byte, 512)
		n, err := f.Read(b)
		fmt.Printf("OPENED %s: read %d %v\n", d.name, n, err)
		f.Close()
		try("mount "+d.name, unix.Mount(path, dir, "ext4", unix.MS_RDONLY, ""))
	}
	for _, path := range []string{"/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/kvm", "/dev/loop0", "/proc/kcore", "/proc/kallsyms", "/proc/kmsg", "/proc/sched_debug", "/proc/keys", "/sys/kernel/debug", "/sys/firmware", "/sys/kernel/security"} {
		b, err := os.ReadFile(path)
		fmt.Printf("read %-24s %d bytes, %v\n", path, len(b), err)
	}
	// Switches of the host's kernel.
	for path, value := range map[string]string{
		"/proc/sys/kernel/core_pattern": "|/tmp/" + mark, "/proc/sys/kernel/modprobe": "/tmp/" + mark,
		"/proc/sys/kernel/sysrq": "1", "/proc/sysrq-trigger": "h", "/proc/sys/vm/panic_on_oom": "1",
		"/proc/sys/kernel/hostname": mark, "/proc/sys/fs/binfmt_misc/register": ":x:M::x::/x:", "/sys/kernel/uevent_helper": "/tmp/" + mark,
		"/proc/1/oom_score_adj": "1000", "/proc/sys/kernel/panic": "1", "/sys/power/state": "mem",
		"/sys/fs/cgroup/release_agent": "/tmp/" + mark, "/sys/fs/cgroup/memory/release_agent": "/tmp/" + mark,
		"/sys/fs/cgroup/pids/release_agent": "/tmp/" + mark, "/sys/fs/cgroup/pids/notify_on_release": "1",
	} {
		try("write "+path, os.WriteFile(path, []byte(value), 0o644))
	}
	try("sethostname", unix.Sethostname([]byte(mark)))
	// Mounts.
	for _, fs := range []string{"cgroup", "cgroup2", "devtmpfs", "debugfs", "tracefs", "securityfs", "bpf", "sysfs", "proc", "tmpfs", "overlay", "fuse", "9p", "ext4"} {
		d := filepath.Join(dir, "m-"+fs)
		_ = os.Mkdir(d, 0o755)
		err := unix.Mount(fs, d, fs, 0, map[string]string{"cgroup": "memory", "overlay": "lowerdir=/,upperdir=/tmp,workdir=" + dir}[fs])
		try("mount "+fs, err)
		if err == nil {
			if fs == "cgroup" {
				try("write release_agent", os.WriteFile(d+"/release_agent", []byte("/tmp/"+mark), 0o644))
			}
			if entries, _ := os.ReadDir(d); fs == "devtmpfs" && len(entries) > 40 {
				fmt.Printf("HOSTDEVICES %d\n", len(entries))
			}
		}
	}
	try("pivot_root", unix.PivotRoot("/", "/"))
	root, _ := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	_ = os.Mkdir(dir+"/jail", 0o755)
	if err := unix.Chroot(dir + "/jail"); err == nil { // the old chroot escape
		_ = unix.Fchdir(root)
		for range 64 {
			_ = unix.Chdir("..")
		}
		_ = unix.Chroot(".")
	}
	try("mark in /", os.WriteFile("/"+mark, nil, 0o644))
	// Other processes, namespaces, system calls.
	for _, ns := range []string{"mnt", "pid", "net", "ipc", "uts", "user", "cgroup"} {
		fd, err := unix.Open("/proc/1/ns/"+ns, unix.O_RDONLY, 0)
		if err == nil {
			err = unix.Setns(fd, 0)
		}
		try("setns "+ns, err)
	}
	for f := range strings.FieldsSeq(os.Getenv("HOSTPIDS")) { // process 1 has a test of its own
		pid, _ := strconv.Atoi(f)
		if err := unix.PtraceAttach(pid); err == nil {
			fmt.Println("ATTACHED to", pid)
		}
		if err := unix.Kill(pid, 0); err == nil {
			fmt.Println("FOUND", pid)
		}
	}
	try("kill everything", unix.Kill(-1, 0))
	call("keyctl", unix.SYS_KEYCTL, 0, uintptr(^uint32(2)), 0)
	key, keyType := append([]byte(mark), 0), append([]byte("user"), 0)
	call("add_key", unix.SYS_ADD_KEY, uintptr(unsafe.Pointer(&keyType[0])), uintptr(unsafe.Pointer(&key[0])), uintptr(unsafe.Pointer(&key[0])), 4, ^uintptr(3))
	call("bpf", unix.SYS_BPF, 0, 0, 0)
	call("io_uring_setup", unix.SYS_IO_URING_SETUP, 8, uintptr(unsafe.Pointer(&make([]byte, 256)[0])))
	call("userfaultfd", unix.SYS_USERFAULTFD, 0)
	call("perf_event_open", unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&make([]byte, 256)[0])), 0, ^uintptr(0), ^uintptr(0), 0)
	call("init_module", unix.SYS_INIT_MODULE, uintptr(unsafe.Pointer(&key[0])), 4, uintptr(unsafe.Pointer(&key[0])))
	call("kexec_load", unix.SYS_KEXEC_LOAD, 0, 0, 0, 0)
	call("iopl", unix.SYS_IOPL, 3)
	call("swapon", unix.SYS_SWAPON, uintptr(unsafe.Pointer(&key[0])), 0)
	call("settimeofday", unix.SYS_SETTIMEOFDAY, uintptr(unsafe.Pointer(&unix.Timeval{Sec: 1})), 0)
	call("syslog", unix.SYS_SYSLOG, 3, uintptr(unsafe.Pointer(&make([]byte, 64)[0])), 64)
	call("acct", unix.SYS_ACCT, 0)
	for nr := range uintptr(2) { // shocker: handles of the host's root
		h := make([]byte, 8+8)
		h[0], h[4], h[8] = 8, 1, byte(2+nr)
		call("open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, uintptr(root), uintptr(unsafe.Pointer(&h[0])), unix.O_RDONLY)
	}
	cmd := exec.Command("/bin/sh", "-c", "id -u; mount -t tmpfs x /mnt && touch /mnt/"+mark+"; cat /proc/1/root/etc/hostname; nsenter -t 1 -a hostname "+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	fmt.Printf("nested namespaces: %v %q\n", err, out)
	call("reboot", unix.SYS_REBOOT, 0xfee1dead, 672274793, 0x89abcdef) // only Ctrl-Alt-Del off
}

// hostFacts returns properties of the host that a break-out would change.
func hostFacts() map[string]string {
	facts := map[string]string{}
	for _, f := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/sysrq", "/proc/sys/kernel/hostname",
		"/proc/sys/vm/panic_on_oom", "/proc/sys/kernel/panic", "/proc/sys/kernel/ctrl-alt-del", "/proc/self/mountinfo", "/proc/swaps", "/proc/modules", "/proc/sys/fs/binfmt_misc/status",
		"/sys/kernel/uevent_helper", "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/pids/release_agent",
		"/sys/fs/cgroup/systemd/release_agent", "/etc/hostname", "/proc/1/oom_score_adj",
	} {
		b, _ := os.ReadFile(f)
		facts[f] = string(b)
	}
	for _, dir := range []string{"/", "/dev"} {
		entries, _ := os.ReadDir(dir)
		var b strings.Builder
		for _, e := range entries {
			fmt.Fprintln(&b, e.Name())
		}
		facts[dir] = b.String()
	}
	return facts
}

// TestBreakOutSet runs the public break-out set as the user and as root of the inside: the host is
// unchanged. F11, F16.
func TestBreakOutSet(t *testing.T) {
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		me := c.Plant(t, c.Work)
		mark := newMark()
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		shown := harness.Beside(c.Binary, "bothy-guest")
		binary, err := os.ReadFile(shown)
		if err != nil {
			t.Fatal(err)
		}
		c.Must(t, "exec", "box", "true")
		m := c.Machine(t, "box")
		before := hostFacts()
		for _, user := range []string{"", "root"} {
			args := []string{"exec", "-e", "MARK=" + mark, "-e", fmt.Sprintf("HOSTPIDS=%d %d %d %d", m.Keeper, m.Sentry, m.Gofer, os.Getpid())}
			if user != "" {
				args = append(args, "-u", user)
			}
			r := c.Run(append(args, "box", me, "intruder", "breakout")...)
			t.Logf("as %q: %s", user, r.Stdout)
			for _, bad := range []string{"OPENED", "HOSTDEVICES", "ATTACHED", "FOUND"} {
				if strings.Contains(r.Stdout, bad) {
					t.Errorf("as %q: something of the host was reached: %s", user, r.Stdout)
				}
			}
			if !strings.Contains(r.Stdout, "reboot") || r.TimedOut {
				t.Errorf("as %q: the set did not run to its end: %v", user, r)
			}
		}
		for what, was := range before {
			if now := hostFacts()[what]; now != was {
				t.Errorf("%s of the host changed:\nwas %s\nis  %s", what, was, now)
			}
		}
		for _, path := range []string{"/" + mark, "/tmp/" + mark, "/mnt/" + mark, "/etc/" + mark, "/root/" + mark, "/run/" + mark} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s exists on the host", path)
			}
		}
		if b, _ := os.ReadFile("/proc/keys"); strings.Contains(string(b), mark) {
			t.Error("a key was added to the host's keyrings")
		}

		// F11: a program of the host is behind /.bothy/guest, /proc/self/exe and
		// /proc/1/exe; it is not written through any of them.
		r := c.Sh("box", "root", `cp /.bothy/guest /tmp/g; for f in /.bothy/guest /proc/1/exe /usr/bin/env; do
			echo "#!/bin/sh" > $f; rm -f $f; cp /bin/true $f; chmod 777 $f; chown 1:1 $f; done; true`)
		if r.TimedOut {
			t.Errorf("%v", r)
		}
		if now, err := os.ReadFile(shown); err != nil || !bytes.Equal(now, binary) {
			t.Error("the inside changed the host's bothy-guest")
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// TestChownAndDevicesInWorkspace lets root inside do everything that root may do to workspace files. On
// the host they stay the caller's, and no device appears. D12, D13.
func TestChownAndDevicesInWorkspace(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		file := c.Write(t, filepath.Join(c.Work, "file"), "x")
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		r := c.Sh("box", "root", `chown 0:0 file; chown 12345:12345 file; chown -h 65534 file
			for d in "b 8 0" "c 1 1" "c 1 3" "c 10 229"; do mknod "dev-$(echo $d|tr ' ' -)" $d; done
			mkdir newdir; echo y > byroot; ln file another; setfattr -n security.capability -v x file; ls -la; true`)
		t.Logf("%v", r)
		err := filepath.WalkDir(c.Work, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			if int(st.Uid) != c.UID || int(st.Gid) != c.GID {
				t.Errorf("%s belongs to %d:%d on the host", path, st.Uid, st.Gid)
			}
			if info.Mode()&(os.ModeDevice|os.ModeCharDevice) != 0 {
				t.Errorf("%s is a device on the host", path)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if n, err := unix.Lgetxattr(file, "security.capability", make([]byte, 64)); err == nil {
			t.Errorf("file capabilities (%d bytes) were set on the host", n)
		}
	})
}

// TestFrozenInit makes root of the inside stop process 1, with which the keeper communicates: commands
// return an answer, and the sandbox can be stopped. F17, F18.
func TestFrozenInit(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		me := c.Plant(t, c.Work)
		c.Must(t, "run", "-d", "--name", "box", "shell", ".", "--", "sleep", "1000")
		freeze := c.Command(t.Context(), "exec", "-u", "root", "box", me, "intruder", "freeze")
		if err := freeze.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = freeze.Process.Kill(); _ = freeze.Wait() }()
		harness.WaitFor(t, harness.Timeout, "init to be frozen", func() bool {
			_, err := os.Lstat(filepath.Join(c.Work, "frozen"))
			return err == nil
		})
		for _, args := range [][]string{{"exec", "box", "echo", "x"}, {"exec", "-u", "root", "box", "echo", "x"}, {"inspect", "box"}, {"exec", "-d", "box", "true"}} {
			if r := c.Run(args...); r.TimedOut {
				t.Errorf("hangs: %v", r)
			}
		}
		if r := c.Run("stop", "box"); r.Code != 0 {
			t.Errorf("stop: %v", r)
		}
		c.Must(t, "exec", "box", "true") // and it works again
	})
}
