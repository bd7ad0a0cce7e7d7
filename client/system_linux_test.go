package client

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestNotes checks that a note cannot control the terminal that a program prints it on.
func TestNotes(t *testing.T) {
	var got string
	c := Client{Notes: func(text string) { got = text }}
	c.passNote("from %s\nline", "\x1b[31mproject\x1b]0;x\x07")
	if strings.ContainsAny(got, "\x1b\x07") || !strings.HasPrefix(got, "from ") {
		t.Errorf("%q", got)
	}
}

// TestWrittenPrograms checks that a client does not start programs that a sandbox may have written, unless
// their directory is named and they stay as they are. The bothy of this test is a copy of its own program.
func TestWrittenPrograms(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Setenv("HOME", top)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(top, ".config"))
	dir := filepath.Join(top, "project", "bin")
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.Mkdir(filepath.Join(top, "other"), 0o755))
	install(t, dir)
	searches := Client{StateDir: filepath.Join(top, "state"), AcceptUnprovenBuild: true, Notes: func(text string) { t.Log(text) }}
	named := searches
	named.Programs = dir

	if _, err := searches.Create(t.Context(), Sandbox{Agent: "shell", Workspaces: []string{filepath.Dir(dir)}}); !errors.Is(err, spec.ErrDenied) || spec.Hint(err) == "" {
		t.Errorf("shared with a sandbox: %v", err)
	}
	if list, err := searches.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, shared := range []string{filepath.Join(top, "other"), filepath.Dir(dir) + ":ro"} {
		if _, err := searches.Create(t.Context(), Sandbox{Agent: "shell", Workspaces: []string{shared}}); err != nil {
			t.Errorf("%s: %v", shared, err)
		}
	}
	if _, err := named.Create(t.Context(), Sandbox{Agent: "shell", Workspaces: []string{filepath.Dir(dir)}}); err != nil {
		t.Errorf("named: %v", err)
	}
	if _, err := named.List(t.Context()); err != nil {
		t.Errorf("named: %v", err)
	}
	if _, err := searches.List(t.Context()); !errors.Is(err, spec.ErrDenied) || spec.Hint(err) == "" {
		t.Errorf("a sandbox writes there: %v", err)
	}
	install(t, dir)
	if _, err := named.List(t.Context()); !errors.Is(err, spec.ErrDenied) || spec.Hint(err) == "" {
		t.Errorf("replaced where a sandbox writes: %v", err)
	}
}

// TestUnprovenOpensNothing checks that the state directory is not opened for programs that are refused
// anyway, or that need no look at the sandboxes.
func TestUnprovenOpensNothing(t *testing.T) {
	state := func() (*store.Store, error) {
		t.Error("the state directory was opened")
		return nil, errors.New("opened")
	}
	unproven := &program.Installed{Unproven: "no version", Named: true}
	if err := (&Client{}).accept(unproven, state); !errors.Is(err, spec.ErrSandbox) {
		t.Errorf("of an unknown build: %v", err)
	}
	if err := (&Client{AcceptUnprovenBuild: true}).accept(unproven, state); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("without notes: %v", err)
	}
	if err := (&Client{AcceptUnprovenBuild: true, Notes: func(string) {}}).accept(unproven, state); err != nil {
		t.Errorf("in a named directory: %v", err)
	}
}

// install installs this test's own program as bothy.
func install(t *testing.T, dir string) {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	must(t, err)
	defer self.Close()
	path := filepath.Join(dir, "bothy")
	_ = os.Remove(path)
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	must(t, err)
	_, err = io.Copy(to, self)
	must(t, errors.Join(err, to.Close()))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
