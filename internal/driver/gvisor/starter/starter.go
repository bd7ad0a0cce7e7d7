// Package starter prepares the processes of the wall: it waits until their user namespace is ready,
// gives up privileges that they do not need, and becomes their program. gVisor runs it for
// moments, several times per sandbox, so it imports next to nothing.
package starter

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Main plays one of its roles, if args say that gVisor started the process for that role.
func Main(args []string) (code int, ok bool) {
	switch {
	case args[0] == Prewarmer || strings.HasSuffix(args[0], "/"+Prewarmer):
		return prewarm(args), true
	case args[0] == gofer && waitDescriptor(args) >= 0:
		return settle(os.Getenv(SidecarsVar)+"/"+SentryProgram, args, goferCaps), true
	case len(args) == 4 && args[0] == SelfPath && args[1] == "umount":
		return umount(args[2:]), true
	}
	return 0, false
}

// Names of gVisor's processes: the first arguments that its own code passes.
const (
	Prewarmer = "gvisor-sentry-prewarmer"
	Sentry    = "runsc-sandbox"
	gofer     = "runsc-gofer"
	Probe     = "runsc[" // a prefix: the child that tries a user namespace
)

// SidecarsVar names the directory in which gVisor looks for its programs. SentryProgram is the
// sentry's program in it, which is also the gofer's.
const (
	SidecarsVar   = "GVISOR_SIDECAR_BINARIES_DIR"
	SentryProgram = "gvisor_sentry"
)

// SelfFD is the sentry's descriptor of this program. The sentry uses it to start its only process,
// one that unmounts /proc, when no program can be found by a path. It is opened with O_PATH, and
// closed when that process runs.
const SelfFD = tableFD - 2

// SelfPath is the path of this program by that descriptor.
const SelfPath = "/proc/self/fd/250"

// IsChild reports whether gVisor started this process as a sentry, a gofer or a probe. It must be
// called before any flag is parsed.
func IsChild(args []string) bool {
	return len(args) > 0 && (args[0] == Sentry || args[0] == gofer || strings.HasPrefix(args[0], Probe))
}

// tableFD keeps the descriptor table at the size that the sentry will need: see keeper.LockFD. While
// it is open, executing a program does not shrink the table.
const tableFD = 252

// prewarm replaces gVisor's program that warms caches up before the sentry: it becomes the sentry.
// Its arguments are PROGRAM ARGV...
func prewarm(args []string) int {
	if len(args) < 3 {
		return 127
	}
	_ = unix.Dup3(0, tableFD, unix.O_CLOEXEC) // without it the start is only slower
	sentry, err := steady(takeLayer(args[2:]))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[0], err)
		return 127
	}
	if err := keepSelf(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: open this program: %v\n", args[0], err)
		return 127
	}
	return settle(args[1], sentry, sentryCaps)
}

func keepSelf() error {
	if _, err := unix.FcntlInt(SelfFD, unix.F_GETFD, 0); err == nil {
		return fmt.Errorf("there are too many descriptors, such as of mounts: %d is taken", SelfFD)
	}
	fd, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Dup3(fd, SelfFD, 0)
}

// LayerFD is the number inside of a descriptor that is passed to the sentry and never goes inside: a
// socket at which a saved root layer is handed out. gVisor itself gives a sentry such a socket
// only for layers in a cloud.
const LayerFD = 8

// Flags of the sentry: the descriptor to read a layer from, and that it is a socket.
const (
	layerFlag  = "--fs-restore-fds="
	socketFlag = "--fs-restore-checkpoint-gofer"
)

// takeLayer makes the sentry start from the layer at that socket, if it got one.
func takeLayer(args []string) []string {
	for i, a := range args {
		outside, inside, _ := strings.Cut(strings.TrimPrefix(a, passFlag), ":")
		if strings.HasPrefix(a, passFlag) && inside == strconv.Itoa(LayerFD) {
			return slices.Replace(slices.Clone(args), i, i+1, layerFlag+outside, socketFlag)
		}
	}
	return args
}

// passFD is the sentry's number for the descriptor that it passes on to init.
const passFD = tableFD - 1

// passFlag names such a descriptor, and its number inside.
const passFlag = "--pass-fd="

// steady gives the descriptor that number, however many others are open. Programs that continue from
// memory find it by its number. A sentry that starts from a saved layer has more descriptors than one
// that starts from memory.
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

// umount is gVisor's umount command: it waits for one byte and unmounts a file system lazily. Its
// arguments are --sync-fd=N DIRECTORY.
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
