package gvisor

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/bothy-dev/bothy/internal/driver"
)

func TestLimitFlags(t *testing.T) {
	const hostCPUs, hostMemory = 4, 8 << 30
	for _, c := range []struct {
		name   string
		memory int64
		cpus   float64
		want   []string
	}{
		{name: "none"},
		{"memory", 2 << 30, 0, []string{"--total-memory=2147483648"}},
		{"the host's memory", hostMemory, 0, nil},
		{"more memory than the host has", 100 << 30, 0, nil},
		{"one processor", 0, 1, []string{"--cpu-num=1", "--cpu-quota=100000", "--cpu-period=100000"}},
		{"a part of one", 0, 0.25, []string{"--cpu-num=1", "--cpu-quota=25000", "--cpu-period=100000"}},
		{"next to nothing", 0, 1e-9, []string{"--cpu-num=1", "--cpu-quota=1", "--cpu-period=100000"}},
		{"one and a half", 0, 1.5, []string{"--cpu-num=2", "--cpu-quota=150000", "--cpu-period=100000"}},
		{"more processors than the host has", 0, 64, []string{"--cpu-num=4", "--cpu-quota=6400000", "--cpu-period=100000"}},
		{"far more", 0, 1e300, []string{"--cpu-num=4", "--cpu-quota=100000000000", "--cpu-period=100000"}},
		{"both", 64 << 20, 2, []string{"--total-memory=67108864", "--cpu-num=2", "--cpu-quota=200000", "--cpu-period=100000"}},
	} {
		r := shownResources(driver.Machine{ShownMemory: c.memory, ShownCPUs: c.cpus})
		if got := limitFlags(*r, hostCPUs, hostMemory); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestAddLimits checks that the flags precede the container's ID, and that gVisor reads the file from its
// old position.
func TestAddLimits(t *testing.T) {
	text, err := json.Marshal(&specs.Spec{Linux: &specs.Linux{Resources: shownResources(driver.Machine{ShownMemory: 64 << 20})}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	spec := fmt.Sprintf("--spec-fd=%d", f.Fd())
	got, err := addLimits([]string{"runsc-sandbox", "boot", spec, "--total-memory", "8589934592", "0123456789ab"})
	want := []string{"runsc-sandbox", "boot", spec, "--total-memory", "8589934592", "--total-memory=67108864", "0123456789ab"}
	if !slices.Equal(got, want) || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if rest, err := io.ReadAll(f); string(rest) != string(text) || err != nil {
		t.Errorf("%q is left to read, %v", rest, err)
	}
}

func TestAddLimitsRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, flag := range map[string]string{
		"no file": "--other", "no number": "--spec-fd=x", "a closed descriptor": "--spec-fd=-1",
		"half a file": fmt.Sprintf("--spec-fd=%d", f.Fd()),
	} {
		if got, err := addLimits([]string{"runsc-sandbox", "boot", flag, "0123456789ab"}); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}
