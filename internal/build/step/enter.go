package step

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/build"
)

// commandFD is the descriptor from which a process reads its command.
const commandFD = 3

// commandMask is the umask that a command begins with, as in containers.
const commandMask = 0o022

// kept are the capabilities of root in a RUN: those of root in containers. None of them gives access to
// the mounts of other processes.
var kept = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_MKNOD, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETFCAP, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT,
	unix.CAP_KILL, unix.CAP_AUDIT_WRITE,
}

// enterCommand execs the command of a RUN within its mounts.
func enterCommand([]string) int {
	runtime.LockOSThread()
	unix.Umask(commandMask)
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return exitCannot
	}
	unix.CloseOnExec(commandFD)
	f := os.NewFile(commandFD, "command")
	var c command
	if err := json.NewDecoder(f).Decode(&c); err != nil {
		return fail(fmt.Errorf("read the command: %w", err))
	}
	_ = f.Close()
	if err := c.arrange(); err != nil {
		return fail(err)
	}
	if err := c.makeDir(); err != nil { // the directory in the root is hidden by a mount
		return fail(err)
	}
	if err := os.Chdir(c.Dir); err != nil {
		return fail(err)
	}
	os.Clearenv()
	for _, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		if err := os.Setenv(name, value); err != nil {
			return fail(fmt.Errorf("%s: %w", name, err))
		}
	}
	program, err := exec.LookPath(c.Args[0])
	if err != nil {
		return fail(err)
	}
	if err := c.become(); err != nil {
		return fail(err)
	}
	return fail(fmt.Errorf("%s: %w", program, unix.Exec(program, c.Args, c.Env)))
}

// arrange makes the mounts. Ours are hidden last.
func (c command) arrange() error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to itself: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for i, m := range c.Mounts {
		if err := m.makeMount(i); err != nil {
			return fmt.Errorf("mount %s: %w", m.To, err)
		}
	}
	for _, m := range c.Mounts { // all mount points inside them exist now
		if !m.ReadOnly {
			continue
		}
		if err := makeReadOnly(m.To); err != nil {
			return fmt.Errorf("make %s read-only: %w", m.To, err)
		}
	}
	hidden := []string{build.Dir}
	if _, err := os.Lstat(build.Stage); err == nil {
		hidden = append(hidden, build.Stage)
	}
	for _, dir := range hidden {
		if err := unix.Mount("none", dir, "tmpfs", unix.MS_RDONLY, "size=4096,mode=0555"); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	return nil
}

// makeReadOnly makes a mount read-only. It repeats the other flags, which a remount would drop.
func makeReadOnly(at string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		return err
	}
	flags := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME)
	return unix.Mount("none", at, "", flags|unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

func (m mount) makeMount(i int) error {
	if m.Within {
		var err error
		if m.To, err = new(points).makePoint(m.To, m.Dir); err != nil {
			return err
		}
	}
	if m.Secret != nil {
		return m.secret(i)
	}
	if m.From != "" {
		return unix.Mount(m.From, m.To, "", unix.MS_BIND|unix.MS_REC, "")
	}
	opts := "mode=1777"
	if m.Size > 0 {
		opts += ",size=" + strconv.FormatInt(m.Size, 10)
	}
	return unix.Mount("tmpfs", m.To, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, opts)
}

// secret mounts a file from a file system in memory that is not reachable by another path.
func (m mount) secret(i int) error {
	dir := filepath.Join("/dev/shm", build.Program+strconv.Itoa(i))
	file := filepath.Join(dir, "secret")
	for _, step := range []func() error{
		func() error { return os.Mkdir(dir, 0o700) },
		func() error { return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700") },
		func() error { return os.WriteFile(file, m.Secret, 0o600) },
		func() error { return os.Chown(file, m.UID, m.GID) },
		func() error { return os.Chmod(file, os.FileMode(m.Mode)&0o777) },
		func() error { return unix.Mount(file, m.To, "", unix.MS_BIND, "") },
		func() error { return unix.Unmount(dir, unix.MNT_DETACH) },
		func() error { return os.Remove(dir) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// become sets the ids of the command, and drops the other capabilities.
func (c command) become() error {
	keep := uint64(0)
	for _, k := range kept {
		keep |= 1 << k
	}
	for k := range uintptr(64) {
		if keep&(1<<k) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, k, 0, 0, 0); err == unix.EINVAL {
			break // the kernel has no more capabilities
		} else if err != nil {
			return fmt.Errorf("give up capability %d: %w", k, err)
		}
	}
	if err := unix.Setgroups(c.Groups); err != nil {
		return fmt.Errorf("take the groups: %w", err)
	}
	if err := unix.Setresgid(c.GID, c.GID, c.GID); err != nil {
		return fmt.Errorf("take the group %d: %w", c.GID, err)
	}
	if err := unix.Setresuid(c.UID, c.UID, c.UID); err != nil {
		return fmt.Errorf("take the user %d: %w", c.UID, err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if c.UID == 0 {
		for i := range data {
			half := uint32(keep >> (32 * i))
			data[i] = unix.CapUserData{Effective: half, Permitted: half}
		}
	}
	return unix.Capset(&header, &data[0])
}
