package engine

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
)

// maxSmall bounds a file that is read as a whole, in bytes: rules, keys, values.
const maxSmall = 1 << 20

// readSmall reads a regular file that is not a link, and not large.
func readSmall(path string) ([]byte, error) {
	f, err := store.OpenRegular(path, unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

// readAll reads to the end of what is not large. What is, is refused: a part of it
// would mean something else.
func readAll(f io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(data) > maxSmall {
		err = fmt.Errorf("it is larger than %d bytes", maxSmall)
	}
	return data, err
}
