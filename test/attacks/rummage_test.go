package attacks

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// heldBait is in the memory of a process inside, and so in its core: finding it shows that the search
// works. Only this program contains it in this spelling, and the program does not search itself.
const heldBait = "42-is-held-in-memory"

// absentInside has root inside, with every capability, look for values in the memory of everything that
// runs there, in /proc, in existing devices and in those that it makes, and in cores. The values are
// passed in an encoded form: otherwise the search would find them.
func absentInside(t *testing.T, c *harness.Caller, box, me string, values ...string) {
	t.Helper()
	c.Must(t, "exec", "-d", box, "sh", "-c", "X=$((40+2))-is-held-in-memory; sleep 1000; echo $X")
	args := []string{"exec", "-u", "root", box, me, "intruder", "rummage"}
	for _, v := range append(values, heldBait) {
		args = append(args, covered(v))
	}
	out := c.Must(t, args...)
	found := map[string]int{}
	for line := range strings.Lines(out) {
		if n, where, ok := strings.Cut(strings.TrimSpace(line), " is in "); ok {
			found[n]++
			if n != fmt.Sprint(len(values)) {
				t.Errorf("value %s is inside, in %s", n, where)
			}
		}
	}
	if found[fmt.Sprint(len(values))] == 0 {
		t.Errorf("what a process inside holds is not found, so nothing else would be:\n%s", out)
	}
	if !strings.Contains(out, "capabilities: all") {
		t.Errorf("root inside looked without every capability:\n%s", out)
	}
}

// covered encodes a value so that the search does not find it, and decodes it again.
func covered(v string) string {
	b := []byte(v)
	for i := range b {
		b[i] = ^b[i]
	}
	return hex.EncodeToString(b)
}

func uncovered(s string) []byte {
	b, _ := hex.DecodeString(s)
	for i := range b {
		b[i] = ^b[i]
	}
	return b
}

// rummage is hostile code that looks for values wherever a machine may have them.
func rummage(values []string) {
	wanted := make([]map[string][]byte, len(values))
	for i, v := range values {
		wanted[i] = harness.Writings(string(uncovered(v)))
	}
	report := func(where string, b []byte) {
		for i, writings := range wanted {
			for how, text := range writings {
				if bytes.Contains(b, text) {
					fmt.Printf("%d is in %s, in %s\n", i, where, how)
				}
			}
		}
	}
	fmt.Println("capabilities:", capabilities())
	rummageProcesses(report)
	rummageDevices(report)
	rummageCores(report)
	for _, path := range []string{"/proc/kcore", "/proc/kmsg", "/proc/kallsyms", "/proc/cmdline", "/proc/keys", "/proc/1/auxv", "/proc/sysvipc/shm"} {
		report(path, beginning(path))
	}
}

// capabilities returns "all" for a process that has every capability that exists inside.
func capabilities() string {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err.Error()
	}
	set := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		set[name] = strings.TrimSpace(value)
	}
	if set["CapEff"] == "" || set["CapEff"] != set["CapBnd"] {
		return fmt.Sprint(set["CapEff"], " of ", set["CapBnd"])
	}
	return "all: " + set["CapEff"]
}

// rummageProcesses reads the mapped memory of every process but this one, through its file in /proc and
// with a debugger's system call.
func rummageProcesses(report func(string, []byte)) {
	own := fmt.Sprint(os.Getpid())
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if filepath.Base(dir) == own {
			continue
		}
		for _, name := range []string{"environ", "cmdline", "auxv", "status"} {
			report(dir+"/"+name, beginning(dir+"/"+name))
		}
		files, _ := filepath.Glob(dir + "/fd/*")
		for _, f := range files {
			if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
				report(f, beginning(f))
			}
		}
		rummageMemory(dir, report)
	}
}

func rummageMemory(dir string, report func(string, []byte)) {
	maps, err := os.ReadFile(dir + "/maps")
	if err != nil {
		fmt.Println(err)
		return
	}
	mem, err := os.Open(dir + "/mem")
	if err != nil {
		fmt.Println(err)
	} else {
		defer mem.Close()
	}
	var pid int
	_, _ = fmt.Sscanf(filepath.Base(dir), "%d", &pid)
	read := 0
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || mode[0] != 'r' || to-from > 256<<20 {
			continue
		}
		b := make([]byte, to-from)
		n := 0
		if mem != nil {
			n, _ = mem.ReadAt(b, int64(from))
		}
		if n == 0 {
			n, _ = unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: to - from}}, []unix.RemoteIovec{{Base: uintptr(from), Len: int(to - from)}}, 0)
		}
		b = written(b[:max(n, 0)])
		report(fmt.Sprintf("%s at %x", dir, from), b)
		read += len(b)
	}
	fmt.Println(dir, "read:", read)
}

// written returns memory without its empty pages, which are most of it.
func written(b []byte) []byte {
	const page = 4096
	var empty [page]byte
	kept := b[:0]
	for ; len(b) > 0; b = b[min(page, len(b)):] {
		if p := b[:min(page, len(b))]; !bytes.Equal(p, empty[:len(p)]) {
			kept = append(kept, p...)
		}
	}
	return kept
}

// rummageDevices reads the existing devices, and those it may make: memory, ports, disks.
func rummageDevices(report func(string, []byte)) {
	made, err := os.MkdirTemp("/tmp", "devices-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(made)
	for i, at := range [][2]uint32{{1, 1}, {1, 2}, {1, 4}, {1, 11}, {7, 0}, {8, 0}, {10, 144}, {253, 0}, {254, 0}, {259, 0}} { // mem, kmem, port, kmsg, loop, sda, nvram, disks
		for kind, mode := range map[string]uint32{"c": unix.S_IFCHR, "b": unix.S_IFBLK} {
			_ = unix.Mknod(filepath.Join(made, fmt.Sprint(kind, i)), mode|0o600, int(unix.Mkdev(at[0], at[1])))
		}
	}
	for _, root := range []string{"/dev", made} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil, d.IsDir():
				return nil
			case strings.Contains(path, "random"), strings.HasPrefix(path, "/dev/fd"):
				return nil
			}
			report(path, beginning(path))
			return nil
		})
	}
}

// rummageCores makes processes end in ways that leave a core, here and where the kernel is told to.
func rummageCores(report func(string, []byte)) {
	dir, err := os.MkdirTemp("/tmp", "cores-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	fmt.Println("core_pattern:", os.WriteFile("/proc/sys/kernel/core_pattern", []byte(dir+"/core.%p"), 0))
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	for _, script := range []string{"kill -SEGV $$", "kill -ABRT $$", "kill -QUIT $$"} {
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{Dir: dir})
		if err == nil {
			_, err = p.Wait()
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	cores, _ := filepath.Glob(dir + "/*")
	for _, path := range cores {
		report(path, beginning(path))
	}
	fmt.Println("cores:", len(cores))
}

// beginning reads up to 16 MiB of a path of any kind, without waiting for it.
func beginning(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(time.Second))
	b, _ := io.ReadAll(io.LimitReader(f, 16<<20))
	return b
}
