// Package drivertest is the suite that every driver must pass. A driver's own tests call Run with
// a Subject; a bug found in one driver becomes a case here.
package drivertest

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
)

// Subject is a driver under test.
type Subject struct {
	Driver driver.Driver
	// Capabilities are the abilities that the driver states. The suite checks them, and that the driver
	// refuses everything else with [errors.ErrUnsupported].
	Capabilities driver.Capabilities
	// Machine prepares a machine in dir. Its root has a working /bin/sh, the usual small programs,
	// and a world-writable directory /opt in the root layer. dir/project is mounted at /project.
	// The suite sets Init.
	Machine func(t *testing.T, dir, id string) driver.Machine
	// Process runs a step in a process in which Start may be called; that is once per process. The
	// step's name is the test's name. Steps share only dir. If nil, the step runs here.
	Process func(t *testing.T, dir string, step func(t *testing.T))
	// CaseDir returns the directory of a case. If nil, that is a temporary one.
	CaseDir func(t *testing.T) string
	// Owners is set if several users exist behind the wall: root, and owners of other files.
	Owners bool
	// Network is set if a machine may have a network card.
	Network bool
	// Isolated is set if programs see only their own wall's processes.
	Isolated bool
}

// deadline bounds every single wait of the suite, on a slow and busy machine.
const deadline = 2 * time.Minute

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	cases := []struct {
		name string
		run  func(t *testing.T, b *bench)
	}{
		{"exit", exits},
		{"missing", missing},
		{"streams", streams},
		{"surroundings", surroundings},
		{"control", control},
		{"tasks", tasks},
		{"signal", signals},
		{"group", groups},
		{"destroy", destroy},
		{"afterwards", afterwards},
		{"memory", memory},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s.step(t, s.dir(t), func(t *testing.T, dir string) { c.run(t, s.start(t, dir, "0a0b0c0d0e0f", "")) })
		})
	}
	t.Run("killed", func(t *testing.T) {
		// One step for each process that a wall may have. Some walls have fewer.
		for i := range 2 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				s.step(t, s.dir(t), func(t *testing.T, dir string) { killed(t, s.start(t, dir, "0a0b0c0d0e0f", ""), i) })
			})
		}
	})
	t.Run("refusals", func(t *testing.T) {
		s.step(t, s.dir(t), func(t *testing.T, dir string) { refusals(t, s, dir) })
	})
	t.Run("pause", func(t *testing.T) {
		s.step(t, s.dir(t), func(t *testing.T, dir string) { pause(t, s, dir) })
	})
	if s.Network {
		t.Run("network", func(t *testing.T) {
			s.step(t, s.dir(t), func(t *testing.T, dir string) { network(t, s, dir) })
		})
	}
	s.checkCapabilities(t)
	t.Run("layer", func(t *testing.T) {
		dir := s.dir(t)
		t.Run("save", func(t *testing.T) { s.step(t, dir, func(t *testing.T, dir string) { save(t, s, dir) }) })
		t.Run("restore", func(t *testing.T) { s.step(t, dir, func(t *testing.T, dir string) { restore(t, s, dir) }) })
	})
	t.Run("neighbours", func(t *testing.T) {
		dir := s.dir(t)
		// Two ids that share a long part.
		for _, id := range []string{"aaaaaaaaaaa1", "aaaaaaaaaaa2"} {
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				s.step(t, dir, func(t *testing.T, dir string) { neighbour(t, s, dir, id) })
			})
		}
	})
}

func (s Subject) dir(t *testing.T) string {
	if s.CaseDir != nil {
		return s.CaseDir(t)
	}
	return t.TempDir()
}

func (s Subject) step(t *testing.T, dir string, f func(t *testing.T, dir string)) {
	t.Helper()
	step := func(t *testing.T) {
		// The wall's processes die with the thread that made them.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f(t, dir)
	}
	if s.Process == nil {
		step(t)
		return
	}
	s.Process(t, dir, step)
}
