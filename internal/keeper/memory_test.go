package keeper

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestFit checks that mounts must be unchanged, and that the machine keeps its old limits.
func TestFit(t *testing.T) {
	was := machineOf("/tmp", "/home/u", "/project")
	var m Memory
	m.noteMachine(was)
	now := machineOf("/tmp", "/home/u", "/project")
	now.Mounts[0].Size, now.Init, now.RootLimit = 7, []string{"other"}, 9
	must(t, m.fitMachine(&now, "/image"))
	if now.Memory != "/image" || now.Mounts[0].Size != was.Mounts[0].Size || now.Init[0] != was.Init[0] || now.RootLimit != was.RootLimit {
		t.Errorf("%+v", now)
	}
	for name, other := range map[string][]string{
		"one less":     {"/tmp", "/home/u"},
		"one more":     {"/tmp", "/home/u", "/project", "/data"},
		"another":      {"/tmp", "/home/u", "/elsewhere"},
		"other order":  {"/tmp", "/project", "/home/u"},
		"none at all":  nil,
		"another kind": {"/tmp", "/home/u", "ro:/project"},
	} {
		d := machineOf(other...)
		if err := m.fitMachine(&d, "/image"); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func machineOf(targets ...string) driver.Machine {
	m := driver.Machine{Init: []string{"init"}, RootLimit: 5}
	for i, target := range targets {
		target, ro := strings.CutPrefix(target, "ro:")
		m.Mounts = append(m.Mounts, driver.Mount{Target: target, ReadOnly: ro, Memory: i == 0, Size: int64(3 * (1 - min(i, 1)))})
	}
	return m
}

// TestOpenMemory checks that only the build that wrote a memory image can continue it, on a host with the
// same programs.
func TestOpenMemory(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenMemory(dir, "this build"); err == nil {
		t.Error("nothing is taken for memory")
	}
	must(t, driver.SumMemory(dir, "this build"))
	must(t, (&Memory{Version: memoryVersion, Names: []string{"a.example"}}).writeFile(dir))
	m, err := OpenMemory(dir, "this build")
	must(t, err)
	if len(m.Names) != 1 || m.Host == "" {
		t.Errorf("%+v", m)
	}
	m.Host = "another"
	must(t, store.WriteJSON(filepath.Join(dir, memoryName), m))
	if _, err := OpenMemory(dir, "this build"); !errors.Is(err, spec.ErrConflict) || !strings.Contains(spec.Hint(err), "--files") {
		t.Errorf("of a host with other programs: %v", err)
	}
	m.Host, m.Version = "", memoryVersion+1
	must(t, store.WriteJSON(filepath.Join(dir, memoryName), m))
	if _, err := OpenMemory(dir, "this build"); err == nil {
		t.Error("another format is taken")
	}
}
