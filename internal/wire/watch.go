package wire

// Init learns from the wall which directories programs inside watch, and has the wall tell them about
// changes by the host. It makes system calls with one of these numbers instead of a descriptor. A wall
// that does not know them answers EBADF, and nothing is watched.
const (
	// NextWatched in readlinkat waits until a program inside watches another directory that the host may
	// change too, and returns its path.
	NextWatched = -0x626f
	// RaiseEvent in inotify_add_watch tells the watchers of a path about an event: the event's
	// cookie and a colon precede the path.
	RaiseEvent = -0x6270
)

// MaxPath is the length of the longest path, in bytes.
const MaxPath = 4096

// Bounds of one question or answer about changes.
const (
	MaxChanges = 256
	MaxWatched = 64
)

// Change is a change that the host made to a file.
type Change struct {
	Path   []byte `json:"path"` // inside
	Mask   uint32 `json:"mask"` // as in inotify
	Cookie uint32 `json:"cookie,omitempty"`
}
