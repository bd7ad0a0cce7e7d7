package drivertest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/driver/drivertest"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Subject{Driver: fake{}, Capabilities: fakeCapabilities, Machine: machine})
}

func machine(t *testing.T, dir, id string) driver.Machine {
	t.Helper()
	base, err := os.MkdirTemp(t.TempDir(), "machine-")
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "project")
	for _, d := range []string{"root/opt", "scratch", "overlay"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "root/opt/below"), []byte("below"), 0o644); err != nil {
		t.Fatal(err)
	}
	return driver.Machine{
		ID: id, Hostname: "test",
		HostPaths: driver.HostPaths{Scratch: filepath.Join(base, "scratch"), Root: filepath.Join(base, "root"), Overlay: filepath.Join(base, "overlay")},
		Mounts:    []driver.Mount{{Source: work, Target: "/project"}},
		UID:       os.Geteuid(), GID: os.Getegid(), Env: []string{"PATH=/usr/bin:/bin"}, Files: 4096,
	}
}
