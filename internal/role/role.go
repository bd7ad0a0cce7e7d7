// Package role plays the lightest roles of the binary early: those that gVisor
// starts on the way up, and that every start waits for. gVisor's packages take
// milliseconds to initialise, and so do those of others.
//
// Go initialises packages in the order of their import paths as soon as what
// they import is ready. This one imports next to nothing, not even
// path/filepath, which is ready late; so its init function runs before nearly
// all others, and a process that has a light role never leaves it. A test
// watches over the order. So what concerns the Go runtime of every process is set here, too.
package role

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath/look"
)

func init() {
	// Nobody asks for a profile of what is allocated. To have one, Go would note who allocates,
	// once in half a megabyte, which is a hundredth of a start.
	runtime.MemProfileRate = 0
	if len(os.Args) == 0 {
		os.Exit(127)
	}
	switch {
	case os.Args[0] == Prewarmer || strings.HasSuffix(os.Args[0], "/"+Prewarmer):
		os.Exit(prewarm(os.Args))
	case os.Args[0] == gofer && waits(os.Args) >= 0:
		os.Exit(settle("/proc/self/exe", os.Args, goferCaps))
	case os.Args[0] == "/proc/self/exe" && len(os.Args) == 4 && os.Args[1] == "umount":
		os.Exit(umount(os.Args[2:]))
	case os.Args[0] == look.Argv0:
		os.Exit(look.Main(os.Args))
	}
}

// Names under which gVisor's processes appear: the first arguments its own code
// gives them.
const (
	Prewarmer = "gvisor-sentry-prewarmer"
	Sentry    = "runsc-sandbox"
	gofer     = "runsc-gofer"
	Probe     = "runsc[" // a prefix: the child that tries a user namespace
)

// OfWall reports whether gVisor started this process for a role that needs
// gVisor. It must be asked before any flag is parsed.
func OfWall(args []string) bool {
	return len(args) > 0 && (args[0] == Sentry || args[0] == gofer || strings.HasPrefix(args[0], Probe))
}

// tableFD keeps the table of descriptors at the size the sentry will need: see
// keeper.LockFD. While it is open, executing a program does not shrink it.
const tableFD = 252

// prewarm stands where gVisor expects a program that warms caches up before
// the sentry: it becomes the sentry. Its arguments are PROGRAM ARGV...
func prewarm(args []string) int {
	if len(args) < 3 {
		return 127
	}
	_ = unix.Dup3(0, tableFD, unix.O_CLOEXEC) // only speed is lost without it
	sentry, err := steady(takeLayer(args[2:]))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[0], err)
		return 127
	}
	return settle(args[1], sentry, sentryCaps)
}

// LayerFD is the number inside of a descriptor that is passed to the sentry and never goes
// inside: a socket at which a saved root layer is handed out. gVisor gives a sentry such a
// socket only for layers in a cloud.
const LayerFD = 8

// Flags of the sentry: the socket to read a layer from, and that it is one.
const (
	layerFlag  = "--fs-restore-fds="
	socketFlag = "--fs-restore-checkpoint-gofer"
)

// takeLayer has the sentry start from the layer at that socket, if it is passed one.
func takeLayer(args []string) []string {
	for i, a := range args {
		outside, inside, _ := strings.Cut(strings.TrimPrefix(a, passFlag), ":")
		if strings.HasPrefix(a, passFlag) && inside == strconv.Itoa(LayerFD) {
			return slices.Replace(slices.Clone(args), i, i+1, layerFlag+outside, socketFlag)
		}
	}
	return args
}

// passFD is the number that the descriptor has in the sentry which it passes on to init.
const passFD = tableFD - 1

// passFlag names such a descriptor, and the number it has inside.
const passFlag = "--pass-fd="

// steady has it that number, however many others there are: programs that go on from
// memory find it by its number, and a sentry that begins with a saved layer has more
// descriptors than one that begins with memory.
func steady(args []string) ([]string, error) {
	at := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, passFlag) })
	if at < 0 {
		return args, nil
	}
	var outside, inside int
	if _, err := fmt.Sscanf(strings.TrimPrefix(args[at], passFlag), "%d:%d", &outside, &inside); err != nil {
		return nil, fmt.Errorf("read %s: %w", args[at], err)
	}
	if outside == passFD {
		return args, nil
	}
	if _, err := unix.FcntlInt(passFD, unix.F_GETFD, 0); err == nil {
		return nil, fmt.Errorf("%s: there are too many descriptors, such as of mounts: %d is taken", args[at], passFD)
	}
	if err := unix.Dup3(outside, passFD, 0); err != nil {
		return nil, fmt.Errorf("move descriptor %d to %d: %w", outside, passFD, err)
	}
	_ = unix.Close(outside)
	args = slices.Clone(args)
	args[at] = fmt.Sprintf("%s%d:%d", passFlag, passFD, inside)
	return args, nil
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
