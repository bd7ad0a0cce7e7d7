package gvisor

import (
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/platform"

	"github.com/bothy-dev/bothy/internal/driver/gvisor/starter"
)

// platformName is what gVisor calls the way in which programs are run here.
const platformName = "systrap"

// mapUnit is how much a sentry maps into a program's address space at a fault,
// at most, in bytes: as much as it takes from its memory file at once. By
// itself it maps all that lies together in that file, up to gigabytes, over what
// it mapped before: each time the heap grows, the host forgets which of its pages
// were there, and the program faults for each of them once more. Of the faults of
// a coding agent's start that was a quarter.
const mapUnit = 2 << 20

// mapInUnits has the sentry map by units.
func mapInUnits() error {
	systrap, err := platform.Lookup(platformName)
	if err != nil {
		return err
	}
	platform.Register(platformName, constructor{systrap})
	return nil
}

type constructor struct{ platform.Constructor }

// New implements platform.Constructor. By now the one process that the sentry starts has begun.
func (c constructor) New(opts platform.Options) (platform.Platform, error) {
	closeSelf()
	p, err := c.Constructor.New(opts)
	if err != nil {
		return nil, err
	}
	return inUnits{p}, nil
}

// closeSelf closes it once: a sentry that goes on from memory makes a second platform.
var closeSelf = sync.OnceFunc(func() { _ = unix.Close(starter.SelfFD) })

type inUnits struct{ platform.Platform }

func (inUnits) MapUnit() uint64 { return mapUnit }
