package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Args[0] == ProbeArgv0 {
		if len(os.Args) > 1 {
			os.Exit(0) // the second user namespace was made
		}
		os.Exit(Probe())
	}
	os.Exit(m.Run())
}

func TestRun(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	names := map[string]bool{}
	for _, c := range Run(t.Context(), state) {
		if c.Name == "" || c.Detail == "" || names[c.Name] {
			t.Errorf("a finding without a name, without a word, or found twice: %+v", c)
		}
		names[c.Name] = true
		switch c.Result {
		case OK:
			if c.Fix != "" {
				t.Errorf("%s is fine and tells how to mend it: %s", c.Name, c.Fix)
			}
		case Warn:
		case Fail:
			if c.Fix == "" {
				t.Errorf("%s fails and nobody says what to do: %s", c.Name, c.Detail)
			}
			t.Logf("%s fails here: %s", c.Name, c.Detail)
		default:
			t.Errorf("%s has the result %q", c.Name, c.Result)
		}
	}
	for _, name := range []string{"build", "kernel", "namespaces", "limit cpu", "limit memory", "limit pids", "state directory", "disk space", "file watching"} {
		if !names[name] {
			t.Errorf("nobody looked at: %s", name)
		}
	}
	entries, err := os.ReadDir(state)
	if err != nil || len(entries) != 2 || entries[0].Name() != ".bothy" || entries[1].Name() != "sandboxes" {
		t.Errorf("it left %v, %v", entries, err)
	}
}

func TestBuild(t *testing.T) {
	if c := checkPrograms(false); c.Result != Fail || c.Fix == "" || !strings.Contains(c.Detail, "cgo") {
		t.Errorf("%+v", c)
	}
}

func TestStateDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, filepath.Join(file, "below"), "/proc/bothy"} {
		if c := stateDir(dir); c.Result != Fail || c.Fix == "" || c.Detail == "" {
			t.Errorf("%q: %+v", dir, c)
		}
	}
	if c := stateDir(t.TempDir()); c.Result != OK {
		t.Errorf("a fine one: %+v", c)
	}
}

func TestSpace(t *testing.T) {
	if c := checkSpace(filepath.Join(t.TempDir(), "not", "there", "yet")); c.Result == Fail || c.Detail == "" {
		t.Errorf("%+v", c)
	}
	if c := checkSpace("/proc"); c.Result != Warn || c.Fix == "" { // it has none
		t.Errorf("a full disk: %+v", c)
	}
}

func TestNamespaceFix(t *testing.T) {
	if namespaceFix() == "" {
		t.Error("no advice")
	}
}

func TestAuthorities(t *testing.T) {
	if c := authorities(t.TempDir()); c.Result != Warn || c.Fix == "" {
		t.Errorf("a host without a bundle: %+v", c)
	}
	if c := authorities(""); c.Result != OK && c.Fix == "" {
		t.Errorf("this host: %+v", c)
	}
}
