package attacks

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// TestMain is also the entry point of attacks: they run the test binary itself inside, and outside as
// other users.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "intruder" {
		os.Exit(intruder(os.Args[2:]))
	}
	stage.Enter()
	if os.Args[0] == "/.bothy/guest" { // planted over Bothy's own program inside
		os.Exit(evilCopy())
	}
	os.Exit(harness.Main(m))
}

// intruder is hostile code. It prints its findings: the tests check its output, and the host.
func intruder(args []string) int {
	switch args[0] {
	case "read":
		for _, path := range args[1:] {
			read(path)
		}
	case "search":
		search(args[1], args[2:])
	case "rummage":
		rummage(args[1:])
	case "connect":
		connect(args[1:])
	case "breakout":
		breakout()
	case "swap":
		swap(args[1], args[2], args[3])
	case "exchange":
		return exchange(args[1], args[2:])
	case "name":
		name(args[1])
	case "freeze":
		freeze()
	case "bomb":
		return bomb(args[1])
	case "reach":
		reach(args[1:])
	case "serve":
		misbehave(args[1], args[2])
	case "knock":
		return knock(args[1])
	case "net":
		return insider(args[1:])
	case "flood":
		flood(args[1], args[2:])
	case "grpc":
		callGRPC(args[1], args[2])
	case "speak":
		speak(args[1:])
	case "leave":
		return leave(args[1:])
	case "nouserns":
		return noUserNamespaces(args[1:])
	default:
		fmt.Println("unknown role", args)
		return 2
	}
	return 0
}

// read tries to read a path in every spelling.
func read(path string) {
	pid := strconv.Itoa(os.Getpid())
	up := strings.Repeat("/..", 30)
	ways := []string{
		path, "/proc/1/root" + path, "/proc/self/root" + path, "/proc/" + pid + "/root" + path,
		"/proc/1/cwd" + up + path, "/proc/self/cwd" + up + path, "/dev/fd/../root" + path, up + path,
	}
	for fd := range 12 {
		ways = append(ways, fmt.Sprintf("/proc/1/fd/%d%s%s", fd, up, path))
	}
	for _, way := range ways {
		if b, err := os.ReadFile(way); err == nil && len(b) > 0 {
			fmt.Printf("READ %s: %q\n", way, b)
		}
		if entries, err := os.ReadDir(way); err == nil {
			for _, e := range entries {
				fmt.Printf("LISTED %s: %q\n", way, e.Name())
			}
		}
	}
	tmp := filepath.Join(os.TempDir(), "link-"+pid)
	if os.Symlink(path, tmp) == nil {
		if b, err := os.ReadFile(tmp); err == nil && len(b) > 0 {
			fmt.Printf("READ through a link %s: %q\n", path, b)
		}
		os.Remove(tmp)
	}
	if os.Link(path, tmp) == nil {
		fmt.Printf("LINKED %s\n", path)
		os.Remove(tmp)
	}
}

// search looks through whole trees for a mark, in names and in small files.
func search(mark string, roots []string) {
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			switch path {
			case "/proc", "/sys", "/usr", "/opt", "/nix", "/snap", "/dev/fd":
				return fs.SkipDir
			}
			if strings.Contains(path, mark) {
				fmt.Printf("NAME %q\n", path)
			}
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() && info.Size() < 64<<10 {
				if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(mark)) {
					fmt.Printf("CONTENT of %q: %q\n", path, b)
				}
			}
			return nil
		})
	}
	for _, f := range []string{"/proc/self/mountinfo", "/proc/self/mounts", "/proc/net/unix", "/proc/1/environ", "/proc/1/maps", "/proc/cmdline"} {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(mark)) {
			fmt.Printf("MENTIONED in %s: %q\n", f, b)
		}
	}
}

// connect connects to unix sockets of the host; "@name" is an abstract one.
func connect(paths []string) {
	for _, path := range paths {
		for _, network := range []string{"unix", "unixpacket", "unixgram"} {
			c, err := net.Dial(network, path)
			if err != nil {
				fmt.Printf("refused %s %s: %v\n", network, path, err)
				continue
			}
			_, werr := c.Write([]byte("hello from inside"))
			fmt.Printf("CONNECTED %s %s (write: %v)\n", network, path, werr)
			c.Close()
		}
	}
}

// swap exchanges two names as fast as it can until a file called stop appears next to the first.
func swap(a, b, limit string) {
	d, _ := time.ParseDuration(limit)
	end := time.Now().Add(d)
	stop := filepath.Join(filepath.Dir(a), "stop")
	for n := 0; ; n++ {
		err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		if err != nil { // not every file server can exchange: then three renames
			t := a + ".tmp"
			_ = os.Rename(a, t)
			_ = os.Rename(b, a)
			_ = os.Rename(t, b)
		}
		if n%256 == 0 {
			if _, err := os.Lstat(stop); err == nil || time.Now().After(end) {
				fmt.Println("swapped", n, err)
				return
			}
		}
	}
}

// name gives this process a hostile name and stays.
func name(s string) {
	b := append([]byte(s), 0)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0)
	fmt.Print("\x1b]0;title\x07 out \u009b31m \x9b31m \x7f \u202e\r\n")
	fmt.Fprint(os.Stderr, "\x1b[2J err\n")
	time.Sleep(10 * time.Minute)
}

// freeze stops init and holds it.
func freeze() {
	runtime.LockOSThread()
	fmt.Println("ptrace:", unix.PtraceAttach(1), unix.Kill(1, unix.SIGSTOP))
	_ = os.WriteFile("frozen", nil, 0o600)
	_ = unix.Mkdir("frozen", 0o700)
	time.Sleep(10 * time.Minute)
}

// knock sends a request to a keeper's control socket and prints its answer.
func knock(path string) int {
	uc, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		fmt.Println("cannot connect:", err)
		return 10
	}
	_ = uc.SetDeadline(time.Now().Add(20 * time.Second))
	c := unixconn.New(uc)
	if err := c.Expect(wire.Hello, &wire.Greeting{}); err != nil {
		fmt.Println("refused:", err)
		return 11
	}
	if err := c.SendJSON(wire.Request, wire.Ask{Op: wire.OpStatus}); err != nil {
		fmt.Println("cannot ask:", err)
	}
	var st wire.KeeperStatus
	if err := c.Expect(wire.Reply, &st); err != nil {
		fmt.Println("refused:", err)
		return 11
	}
	fmt.Println("ANSWERED", st.Version)
	return 0
}

// noUserNamespaces runs in a user namespace of its own, allows no more of them in it, and executes a
// command.
func noUserNamespaces(args []string) int {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		fmt.Println("cannot forbid user namespaces:", err)
		return 99
	}
	fmt.Println(syscall.Exec(args[0], args, os.Environ()))
	return 98
}
