// Package driver is the seam between a keeper and the wall that holds a
// sandbox. A driver turns a Machine, a complete description of what should
// exist inside, into a running Wall. It decides nothing about policy, names or
// life cycle; it knows how to build one kind of wall, run processes behind it,
// save what changed in its root, and take it down so that nothing stays.
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
	// Start builds the wall and boots init behind it. It must be called from
	// the keeper's main thread, locked to it, and may be called once per
	// process. When it fails nothing is left behind.
	Start(ctx context.Context, m Machine) (Wall, error)
}

// ErrLayer is why a wall is not built whose layer, [Machine.Restore], makes no sense to the driver:
// it is damaged, or what has it is.
var ErrLayer = errors.New("the saved layer of the root cannot be used")

// ErrOverdue is why a sandbox gives up something that was to end in a bounded time.
var ErrOverdue = errors.New("it took too long")

// Machine describes what shall exist behind the wall.
type Machine struct {
	ID       string // 12 hex digits
	Hostname string
	// Scratch is a private directory, empty at the start, for the driver's own
	// run-time files. It may vanish when the keeper dies.
	Scratch string
	// Root is the assembled tree the sandbox's root starts from. The driver
	// never writes to it.
	Root string
	// Image is a file with an EROFS file system that the root starts from instead,
	// if it is not empty: no compression, files in whole blocks. Root is still the
	// tree that mounts come from; mount points that the image lacks are made.
	Image string
	// Overlay is a directory on disk in which the driver may keep the data of
	// the writable layer over Root while the sandbox runs.
	Overlay string
	// RootLimit bounds the writable layer, in bytes. Zero means no bound.
	RootLimit int64
	// Restore is a layer saved by Wall.SaveRoot, or empty for a fresh root. If its directory
	// has sums (package sums), nothing of it is used that is not what was written: damage
	// that is found before Start returns is ErrLayer, damage that is found later ends the
	// wall, before a program gets to see it.
	Restore string
	// CheckLayer has all of Restore checked before Start returns.
	CheckLayer bool
	// Memory is an image written by Wall.SaveMemory and SumMemory, or empty. Programs go on from
	// there, and no init is booted; the root's layer is in the image. Everything else
	// must be what it was, but for ID, Hostname, Root, Network, what mounts come
	// from, and what is said of the host alone.
	Memory string
	// Starter is the path of a program that plays package gvisor/starter: it prepares the wall's
	// processes. Empty: this program does.
	Starter string
	// Build tells the programs that run the machine from other builds of them: see [Build].
	Build  string
	Mounts []Mount
	// Network is the sandbox's network card; nil for none but the loopback.
	Network *Network
	// UID and GID are those of the caller inside: the only ids that own files
	// on the host.
	UID, GID int
	// Init is the program that becomes process 1, with its arguments. It finds
	// its end of the control socket as file descriptor InitFD. It does not mind SIGXFSZ,
	// which a save that is broken off may send it.
	Init []string
	Env  []string
	// ShownMemory and ShownCPUs are what programs inside see of the machine: bytes of memory,
	// and processors, a fraction counting as a whole one. Zero is what the host has. They do not
	// bind: the caller limits the wall's processes.
	ShownMemory int64
	ShownCPUs   float64
	// Files bounds open files per process inside.
	Files uint64
	// PanicLog is a file for the last words of a dying wall.
	PanicLog string
}

// Network is a network card and how it is set up inside. Whoever holds the
// other end of its socket is everything the inside can reach.
type Network struct {
	// Card is a datagram socket that carries IP packets, without a link header.
	// It stays the caller's.
	Card      *os.File
	MTU       int
	Addresses []netip.Prefix // the inside's own
	Gateways  []netip.Addr   // default routes, one a family, on the card's own networks
}

// InitFD is the descriptor under which init finds its control socket.
const InitFD = 7

// Mount is one thing mounted over the root.
type Mount struct {
	Source string // host path, for binds
	Target string // absolute path inside; exists in Root or in an earlier mount
	// Stage is the path inside, in Root, at which the driver mounts it instead, if it
	// is not empty. Init attaches it to Target.
	Stage    string
	ReadOnly bool
	// Exclusive promises that nobody outside changes what is mounted while the
	// sandbox runs, so that the wall may remember names and attributes.
	Exclusive bool
	// Memory makes it an empty file system in the sandbox's own memory instead
	// of a bind, of at most Size bytes.
	Memory bool
	Size   int64
	Mode   os.FileMode
	// Kept, with Memory, has what is in it lie in a file in the directory Source, which is
	// empty and on disk, instead of memory, and be saved and restored with the root's layer.
	Kept bool
}

// Process is a program to run behind the wall.
type Process struct {
	Args   []string // Args[0] is looked up in the PATH of Env
	Env    []string
	Dir    string
	UID    int
	GID    int
	Groups []int
	// Elevate leaves an ordinary user the ability to become root behind the
	// wall (see Package guest, sudo). Root always has every capability there.
	Elevate bool
	// Stdin, Stdout and Stderr are pipes or regular files, opened for this
	// process alone. The caller closes its copies after Exec returns.
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
	// Wait blocks until the process ended. It is called once.
	Wait() (Exit, error)
	// Signal sends a signal to its process group, which it leads: to it, and to what
	// it has started that has not left. That is what a terminal does.
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

// Wall is a running sandbox. Its methods may be called concurrently. Each has
// a deadline of its own, or takes a context: a wall that hangs never hangs its
// keeper.
type Wall interface {
	// Control is the keeper's end of init's control socket.
	Control() *os.File
	// Exec starts a process. A program that does not exist or cannot be
	// executed is reported as spec.ErrNoSuchBinary or spec.ErrNotRunnable. After an error
	// of class spec.ErrMayHaveRun the process may have begun; after any other it has not.
	Exec(ctx context.Context, p Process) (Running, error)
	Tasks(ctx context.Context) ([]Task, error)
	// Signal sends a signal to one process inside; SignalAll to all of them
	// but init.
	Signal(ctx context.Context, pid, sig int) error
	// Memory is what the programs inside take from the host, in bytes, file
	// caches and file systems in memory included.
	Memory(ctx context.Context) (int64, error)
	// RoomToSave tells whether SaveRoot can be tried without danger for the sandbox, which may
	// die of it on a full file system in memory.
	RoomToSave() error
	// SaveRoot writes the layer over the root into dir, which must be an empty
	// directory. The sandbox stands still meanwhile, and goes on afterwards.
	SaveRoot(ctx context.Context, dir string) error
	// PrepareMemory makes what SaveMemory then writes to, while the sandbox goes on. It
	// may be left out: it is done for the sandbox to stand still for less time.
	PrepareMemory(ctx context.Context, dir string) error
	// SaveMemory writes all that programs hold in memory into dir, which must be an
	// directory that is empty, or prepared, and nobody else can look into, for SumMemory
	// and Machine.Memory. The sandbox
	// stands still (Pause), and is not changed by it. In what goes on from there,
	// processes started by Exec are ended, and connections over the network card
	// broken off. When ctx ends it is broken off soon: what is in dir is no image unless
	// SaveMemory returns nil.
	SaveMemory(ctx context.Context, dir string) error
	// Settle waits until programs have all of the memory that they go on from: those of
	// a wall with Machine.Memory may go on while most of it is still being read. What
	// is saved is saved after that. Memory that cannot be read ends the wall.
	Settle(ctx context.Context) error
	// Pause has everything inside stand still, and what programs have written be
	// with the host, until resume is called: the caller sees to it. SaveRoot
	// and SaveMemory work meanwhile.
	Pause(ctx context.Context) (resume func(), err error)
	// Pids are the host processes that make up the wall.
	Pids() []int
	// Done is closed once any of them died or Destroy was called.
	Done() <-chan struct{}
	// Err says why the wall ended by itself; nil while it stands or after
	// Destroy.
	Err() error
	// Destroy ends everything behind the wall and the wall itself. It always
	// succeeds within a few seconds and may be called again.
	Destroy()
}
