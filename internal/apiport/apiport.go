// Package apiport records the TCP ports at which bothy serve answers, so that no sandbox is given a way to
// one: the API can do all that its owner can.
package apiport

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Dir is the directory of the records of a state directory.
func Dir(s *store.Store) string { return filepath.Join(s.API(), "ports") }

// Hold records ports, as long as this process lives or until release is called.
func Hold(dir string, ports []uint16) (release func(), err error) {
	var locks []*store.Lock
	release = func() {
		for _, l := range locks {
			l.Unlock()
		}
		locks = nil
	}
	if len(ports) == 0 {
		return release, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, port := range ports {
		l, err := lockOne(dir, port)
		if err != nil {
			release()
			return nil, err
		}
		locks = append(locks, l)
	}
	return release, nil
}

// maxHolders is how many servers may answer at one port, at different addresses.
const maxHolders = 9

// lockOne takes the first free record of a port.
func lockOne(dir string, port uint16) (l *store.Lock, err error) {
	for n := range maxHolders {
		if l, err = store.TryLock(recordPath(dir, port, n)); !errors.Is(err, store.ErrLocked) {
			return l, err
		}
	}
	return nil, spec.Errorf(spec.ErrConflict, "%d servers answer at port %d already", maxHolders, port)
}

// IsHeld reports whether a server answers at a port.
func IsHeld(dir string, port uint16) bool {
	for n := range maxHolders {
		if dir != "" && store.IsLocked(recordPath(dir, port, n)) {
			return true
		}
	}
	return false
}

// Check refuses ports of the host for a sandbox if a server answers there.
func Check(dir string, ports []uint16) error {
	for _, port := range ports {
		if IsHeld(dir, port) {
			return spec.Errorf(spec.ErrDenied, "bothy serve answers at port %d: no sandbox may reach it", port).
				WithHint("choose another port, here or for bothy serve --listen")
		}
	}
	return nil
}

func recordPath(dir string, port uint16, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%d.%d", port, n))
}
