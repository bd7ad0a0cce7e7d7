package engine

import (
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
)

// maxSmall bounds a file that is read as a whole, in bytes: rules, keys, values.
const maxSmall = 1 << 20

// readSmall reads a regular file that is not a link, and not large.
func readSmall(path string) ([]byte, error) {
	return store.ReadFile(path, unix.O_NOFOLLOW, maxSmall)
}
