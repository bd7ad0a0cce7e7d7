// Package driver is the interface between a keeper and the wall that holds a sandbox. A driver turns a
// Machine, a complete description of the inside, into a running Wall. It knows nothing about policy,
// names or life cycle. It can build one kind of wall, run processes behind it, save the changes to its
// root, and take it down without leftovers.
//
// Every implementation passes the suite in driver/drivertest.
package driver

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"time"
)

// Driver builds walls of one kind.
type Driver interface {
	Name() string
	// Start builds the wall and boots init behind it. The caller must be on the keeper's main
	// thread, locked to it, and may call Start once per process. If Start fails it leaves nothing
	// behind.
	Start(ctx context.Context, m Machine) (Wall, error)
}

// ErrLayer reports that no wall could be built because the driver cannot use the layer
// [Machine.Restore]: the layer is damaged, or its storage is.
var ErrLayer = errors.New("the saved layer of the root cannot be used")

// ErrOverdue reports that an operation of a sandbox exceeded its time limit.
var ErrOverdue = errors.New("it took too long")

// Machine describes everything behind the wall.
type Machine struct {
	ID       string // 12 hex digits
	Hostname string
	HostPaths
	// RootLimit bounds the writable layer, in bytes. Zero means no bound.
	RootLimit int64
	// CheckLayer makes Start check all of Restore before it returns.
	CheckLayer bool
	// Build identifies the build of the programs that run the machine: see [Build].
	Build  string
	Mounts []Mount
	// Network is the sandbox's network card; nil means only the loopback.
	Network *Network
	// UID and GID are the caller's ids inside: the only ids that own files on the host.
	UID, GID int
	// Init is the program that becomes process 1, with its arguments. It has its end of the
	// control socket as file descriptor InitFD. It tolerates SIGXFSZ, which a cancelled save may
	// send it.
	Init []string
	Env  []string
	// ShownMemory and ShownCPUs are the bytes of memory and the processors that programs inside
	// see; a fraction of a processor counts as a whole one. Zero shows the host's. They enforce
	// nothing: the caller limits the wall's processes.
	ShownMemory int64
	ShownCPUs   float64
	// Files bounds the open files of each process inside.
	Files uint64
}

// HostPaths are the files of this host that a machine is made from, and those that it writes. A driver that
// runs its walls elsewhere needs others.
type HostPaths struct {
	// Scratch is a private directory, empty at the start, for the driver's own run-time files. It
	// may vanish when the keeper dies.
	Scratch string
	// Root is the assembled tree that the sandbox's root starts from. The driver never writes to
	// it.
	Root string
	// Image, if not empty, is a file with an EROFS file system that the root starts from instead:
	// without compression, and with files in whole blocks. Mounts still come from the tree Root;
	// the driver makes mount points that the image lacks.
	Image string
	// Overlay is a directory on disk in which the driver may keep the data of the writable layer
	// over Root while the sandbox runs.
	Overlay string
	// Restore is a layer saved by Wall.SaveRoot, or empty for a fresh root. If its directory has sums
	// (package sums), the driver uses only data that matches them. It returns ErrLayer for damage found
	// before Start returns. Damage found later ends the wall before a program sees the data.
	Restore string
	// Memory is an image written by Wall.SaveMemory and SumMemory, or empty. Programs continue from
	// it, and the driver boots no init; the image includes the root's layer. All other fields must be
	// unchanged, except ID, Hostname, Root, Network, the sources of mounts, and fields that
	// concern only the host.
	Memory string
	// Starter is the path of a program that implements package gvisor/starter: it prepares the wall's
	// processes. If empty, this program does that itself.
	Starter string
	// PanicLog is a file for the last messages of a dying wall.
	PanicLog string
}

// Network is a network card and its configuration inside. The inside can reach only the holder of
// the other end of its socket.
type Network struct {
	// Card is a datagram socket that carries IP packets, without a link header. The caller keeps
	// ownership.
	Card      *os.File
	MTU       int
	Addresses []netip.Prefix // of the inside
	Gateways  []netip.Addr   // default routes, one per address family, on the card's own networks
}

// InitFD is the descriptor of init's control socket.
const InitFD = 7

// Mount is one mount over the root.
type Mount struct {
	Source string // host path, for binds
	Target string // absolute path inside; exists in Root or in an earlier mount
	// Stage, if not empty, is the path inside, in Root, at which the driver mounts it instead. Init
	// attaches it to Target.
	Stage    string
	ReadOnly bool
	// Exclusive promises that no process outside changes the mounted files while the sandbox runs.
	// The wall may then cache names and attributes.
	Exclusive bool
	// Memory makes the mount an empty file system in the sandbox's own memory, of at most Size
	// bytes, instead of a bind.
	Memory bool
	Size   int64
	Mode   os.FileMode
	// Kept, with Memory, keeps the contents in a file in the directory Source, which is empty and on
	// disk, instead of in memory. They are saved and restored with the root's layer.
	Kept bool
}

// Usage is the use of the host by a wall, as the host counts it.
type Usage struct {
	CPU    time.Duration
	Memory int64 // resident bytes
}

// IdleCPU is the processor time that an idle wall uses in a minute. Below it no program inside can have
// changed a file.
const IdleCPU = 2 * time.Millisecond

// Local is a [Wall] whose processes are processes of this host.
type Local interface {
	// Pids returns the host processes that make up the wall.
	Pids() []int
}

// Process is a program to run behind the wall.
type Process struct {
	Args   []string // Args[0] is looked up in the PATH of Env
	Env    []string
	Dir    string
	UID    int
	GID    int
	Groups []int
	// Elevate lets an ordinary user become root behind the wall (see Package guest, sudo). Root
	// always has every capability there.
	Elevate bool
	// Stdin, Stdout and Stderr are pipes or regular files, opened for this process alone. The
	// caller closes its copies after Exec returns.
	Stdin, Stdout, Stderr *os.File
}

// Exit is how a process ended.
type Exit struct {
	Code   int // when Signal is 0
	Signal int
}

// Running is a process behind the wall.
type Running interface {
	PID() int // inside
	// Wait blocks until the process has ended. It is called once.
	Wait() (Exit, error)
	// Signal sends a signal to the process group that the process leads: to it, and to its
	// descendants that have not left the group. A terminal does the same.
	Signal(sig int) error
}

// Task is one line of the process table behind the wall.
type Task struct {
	PID, PPID int
	UID       int
	CPU       time.Duration
	Command   string
	Threads   int
}

// Wall is a running sandbox. Its methods may be called concurrently. Each has its own deadline, or
// takes a context: a wall that hangs never hangs its keeper.
type Wall interface {
	// Control is the keeper's end of init's control socket.
	Control() *os.File
	// Exec starts a process. For a program that does not exist or cannot be executed it returns
	// spec.ErrNoSuchBinary or spec.ErrNotRunnable. After an error of class spec.ErrMayHaveRun the
	// process may have begun; after any other error it has not.
	Exec(ctx context.Context, p Process) (Running, error)
	Tasks(ctx context.Context) ([]Task, error)
	// Signal sends a signal to one process inside; SignalAll to all of them except init.
	Signal(ctx context.Context, pid, sig int) error
	// Memory returns the bytes that the programs inside use of the host, including file caches and
	// file systems in memory.
	Memory(ctx context.Context) (int64, error)
	// RoomToSave reports whether SaveRoot is safe for the sandbox, which may die of it on a full file
	// system in memory.
	RoomToSave() error
	// SaveRoot writes the layer over the root into dir, which must be an empty directory. The sandbox is
	// paused meanwhile, and resumes afterwards.
	SaveRoot(ctx context.Context, dir string) error
	// PrepareMemory creates the files for SaveMemory while the sandbox runs. It is optional: it shortens
	// the pause of the sandbox.
	PrepareMemory(ctx context.Context, dir string) error
	// SaveMemory writes the whole memory of programs into dir, for SumMemory and Machine.Memory.
	// dir must be empty or prepared, and no other user may be able to look into it. The sandbox is
	// paused (Pause) and stays unchanged. In a sandbox that continues from the image, processes
	// started by Exec are ended, and connections over the network card are broken off. If ctx ends
	// the save is soon cancelled: dir contains no valid image unless SaveMemory returns nil.
	SaveMemory(ctx context.Context, dir string) error
	// Settle waits until all memory of a wall with Machine.Memory is loaded: its programs may run
	// while most of it is still being read. Saves happen after that. Memory that cannot be read
	// ends the wall.
	Settle(ctx context.Context) error
	// Pause pauses everything inside until resume is called, and hands all data that programs have
	// written to the host. The caller must call resume. SaveRoot and SaveMemory work meanwhile.
	Pause(ctx context.Context) (resume func(), err error)
	// Usage returns the host's resources that the wall has used since its start.
	Usage() Usage
	// CPU is the processor time of Usage alone, which is cheap to measure.
	CPU() time.Duration
	// Done is closed once a process of the wall has died, or Destroy was called.
	Done() <-chan struct{}
	// Err returns why the wall ended by itself. It is nil while the wall runs, or after Destroy.
	Err() error
	// Destroy ends everything behind the wall and the wall itself. It always succeeds within a few
	// seconds, and may be called again.
	Destroy()
}
