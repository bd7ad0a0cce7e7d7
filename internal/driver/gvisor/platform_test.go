package gvisor

import (
	"errors"
	"testing"

	"gvisor.dev/gvisor/pkg/sentry/platform"
)

// plain stands for gVisor's own platform in this test.
type plain struct {
	platform.Constructor
	err error
}

func (p plain) New(platform.Options) (platform.Platform, error) { return allAtOnce{}, p.err }

type allAtOnce struct{ platform.Platform }

func (allAtOnce) MapUnit() uint64 { return 0 } // everything contiguous

func TestMapsInUnits(t *testing.T) {
	real, err := platform.Lookup(platformName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { platform.Register(platformName, real) })
	broken := errors.New("broken")
	for _, failure := range []error{nil, broken} {
		platform.Register(platformName, plain{err: failure})
		if err := mapInUnits(); err != nil {
			t.Fatal(err)
		}
		ours, err := platform.Lookup(platformName)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ours.New(platform.Options{})
		if !errors.Is(err, failure) {
			t.Errorf("%v, want %v", err, failure)
		}
		if failure == nil && p.MapUnit() != mapUnit {
			t.Errorf("maps by %d, want %d", p.MapUnit(), mapUnit)
		}
	}
}
