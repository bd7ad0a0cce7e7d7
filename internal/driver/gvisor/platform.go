package gvisor

import (
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/platform"

	"github.com/bothy-dev/bothy/internal/driver/gvisor/starter"
)

// platformName is gVisor's name for the platform on which programs run here.
const platformName = "systrap"

// mapUnit is the most that a sentry maps into a program's address space at a fault, in bytes: as much as
// it takes from its memory file at once. By default it maps everything that is contiguous in that file,
// up to gigabytes, over its earlier mappings. Then each time the heap grows, the host forgets which of
// its pages were present, and the program faults for each of them again. That was a quarter of the
// faults of a coding agent's start.
const mapUnit = 2 << 20

// mapInUnits makes the sentry map in units.
func mapInUnits() error {
	systrap, err := platform.Lookup(platformName)
	if err != nil {
		return err
	}
	platform.Register(platformName, constructor{systrap})
	return nil
}

type constructor struct{ platform.Constructor }

// New implements platform.Constructor. By now the one process that the sentry starts is running.
func (c constructor) New(opts platform.Options) (platform.Platform, error) {
	closeSelf()
	p, err := c.Constructor.New(opts)
	if err != nil {
		return nil, err
	}
	return inUnits{p}, nil
}

// closeSelf closes the descriptor once: a sentry that continues from memory makes a second platform.
var closeSelf = sync.OnceFunc(func() { _ = unix.Close(starter.SelfFD) })

type inUnits struct{ platform.Platform }

func (inUnits) MapUnit() uint64 { return mapUnit }
