package wire

// Init learns from the wall which directories programs inside watch, and has it tell
// them of changes that the host made, by system calls with one of these in place of a
// descriptor. A wall that does not know them answers EBADF, and nothing is watched.
const (
	// NextWatched in readlinkat waits until a program inside watches one more directory
	// that the host changes as well, and gives its path.
	NextWatched = -0x626f
	// RaiseEvent in inotify_add_watch tells the watchers of a path of an event: the path
	// has the event's cookie and a colon before it.
	RaiseEvent = -0x6270
)

// MaxPath is the length of the longest path, in bytes.
const MaxPath = 4096

// Bounds of what one question or answer about changes holds.
const (
	MaxChanges = 256
	MaxWatched = 64
)

// Change is something that the host did to a file.
type Change struct {
	Path   []byte `json:"path"` // inside
	Mask   uint32 `json:"mask"` // as inotify says it
	Cookie uint32 `json:"cookie,omitempty"`
}
