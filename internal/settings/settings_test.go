package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	must(t, os.Mkdir(filepath.Join(dir, "bothy"), 0o700))
	path := filepath.Join(dir, "bothy", "config.yaml")
	c, err := Load(func(string) {})
	if err != nil || c.IdleTimeout() != spec.Duration(defaultIdle) || c.DetachKeys() != defaultDetach {
		t.Errorf("without a file: %+v, %v", c, err)
	}
	if l := c.Limits(); l.Pids != defaultPids || l.Disk != defaultDisk || l.Memory < minMemory || l.Memory > maxMemory || l.CPUs != 0 {
		t.Errorf("default limits: %+v", l)
	}
	for _, text := range []string{"", "# nothing\n", "{}\n", "\ufeffpids: 9\n"} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := Load(func(string) {}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	must(t, os.WriteFile(path, []byte("idle_timeout: 0s\ndetach_keys: ctrl-p,ctrl-q\ncpus: 1.5\nmemory: 2g\npids: 9\ndisk: 1t\n"), 0o600))
	c, err = Load(func(string) {})
	must(t, err)
	if want := (spec.Limits{CPUs: 1.5, Memory: 2 << 30, Pids: 9, Disk: 1 << 40}); c.Limits() != want || c.IdleTimeout() != 0 || c.DetachKeys() != "ctrl-p,ctrl-q" {
		t.Errorf("read: %+v, %v, %q", c.Limits(), time.Duration(c.IdleTimeout()), c.DetachKeys())
	}
	for name, text := range map[string]string{
		"an unknown key": "memroy: 1g\n", "a key in another case": "Memory: 1g\n", "a key twice": "pids: 1\npids: 2\n",
		"no size": "memory: lots\n", "no size of a disk": "disk: 0\n", "a negative limit": "pids: -1\n", "negative processors": "cpus: -0.5\n",
		"no duration": "idle_timeout: soon\n", "a duration without a unit": "idle_timeout: 30\n", "no keys": "detach_keys: hyper-x\n",
		"no mapping": "[1, 2]\n", "no YAML": "a: [\n", "a text for a number": "pids: many\n",
	} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if c, err := Load(func(string) {}); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	must(t, os.Chmod(path, 0))
	if _, err := Load(func(string) {}); os.Geteuid() != 0 && !errors.Is(err, spec.ErrUsage) {
		t.Errorf("without permission: %v", err)
	}
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700))
	if _, err := Load(func(string) {}); err == nil {
		t.Error("a directory was read")
	}
}

// TestSaveEvery checks the variable that is a setting, with and without a file.
func TestSaveEvery(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	must(t, os.Mkdir(filepath.Join(home, "bothy"), 0o700))
	for _, text := range []string{"", "pids: 9\n"} {
		if text != "" {
			must(t, os.WriteFile(filepath.Join(home, "bothy", "config.yaml"), []byte(text), 0o600))
		}
		t.Setenv(saveEveryVar, "200ms")
		if c, err := Load(func(string) {}); err != nil || c.SaveEvery != spec.Duration(200*time.Millisecond) {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
		t.Setenv(saveEveryVar, "often")
		if _, err := Load(func(string) {}); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), saveEveryVar) || spec.Hint(err) == "" {
			t.Errorf("%q, a wrong time: %v", text, err)
		}
		t.Setenv(saveEveryVar, "")
		if c, err := Load(func(string) {}); err != nil || c.SaveEvery != 0 {
			t.Errorf("%q, none: %+v, %v", text, c, err)
		}
	}
}
