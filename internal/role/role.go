// Package role plays the light roles of the binary early. gVisor's packages
// take milliseconds and more than a megabyte to initialise, and every process
// that the one binary becomes would pay for it: init inside a sandbox, for as
// long as it lives, and the helpers that gVisor starts on the way up, at every
// start.
//
// Go initialises packages in the order of their import paths as soon as what
// they import is ready. This one imports nothing heavy and its path sorts
// before gVisor's, so its init function runs before theirs; a process that has
// a light role never leaves it. A test watches over the order.
package role

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/guest"
)

func init() {
	if len(os.Args) == 0 {
		os.Exit(127)
	}
	switch {
	case filepath.Base(os.Args[0]) == "gvisor-sentry-prewarmer":
		os.Exit(prewarm(os.Args))
	case os.Args[0] == "/proc/self/exe" && len(os.Args) == 4 && os.Args[1] == "umount":
		os.Exit(umount(os.Args[2:]))
	}
	if code, ok := guest.Main(os.Args); ok {
		os.Exit(code)
	}
}

// prewarm stands where gVisor expects a program that warms caches up before
// the sentry: it becomes the sentry. Its arguments are PROGRAM ARGV...
func prewarm(args []string) int {
	if len(args) > 2 {
		err := unix.Exec(args[1], args[2:], os.Environ())
		fmt.Fprintf(os.Stderr, "exec %s: %v\n", args[1], err)
	}
	return 127
}

// umount is gVisor's umount command: it waits for one byte and detaches a file
// system. Its arguments are --sync-fd=N DIRECTORY.
func umount(args []string) int {
	var fd int
	if _, err := fmt.Sscanf(strings.TrimPrefix(args[0], "-"), "-sync-fd=%d", &fd); err != nil {
		return 128
	}
	b := make([]byte, 1)
	if n, err := unix.Read(fd, b); n != 1 {
		fmt.Fprintf(os.Stderr, "umount: read from descriptor %d: %d, %v\n", fd, n, err)
		return 128
	}
	if err := unix.Unmount(args[1], unix.MNT_DETACH); err != nil {
		fmt.Fprintf(os.Stderr, "umount %s: %v\n", args[1], err)
		return 128
	}
	return 0
}
