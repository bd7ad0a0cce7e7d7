package hostdirs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	runs "github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestApart checks that no sandbox can write where the files of runs are. A sandbox that could does
// not start while a run has files there, even if they are gone. Where such a sandbox exists, no
// files of runs are made.
func TestApart(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	d := Directories{keeperclient.Keepers{Store: st}}
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	for _, c := range []struct {
		name    string
		mount   spec.Mount
		mode    string
		around  bool // a directory for runs is refused
		refused bool // it does not start while runs have files there
	}{
		{"beside", spec.Mount{Source: at("other")}, "", false, false},
		{"the same", spec.Mount{Source: at("place")}, "", true, true},
		{"around", spec.Mount{Source: base}, "", true, true},
		{"a run", spec.Mount{Source: at("place/one/outputs")}, "", false, true},
		{"between", spec.Mount{Source: at("place/mine")}, "", false, false},
		{"read-only", spec.Mount{Source: base, ReadOnly: true}, "", false, false},
		{"reviewed", spec.Mount{Source: base}, spec.WorkspaceReview, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			sb := &spec.Sandbox{
				Version: spec.Version, ID: store.NewID(), Name: "box", Agent: "shell", Template: spec.TemplateHost,
				Workspaces: []spec.Mount{c.mount}, WorkspaceMode: c.mode,
			}
			_, err := st.Create(sb)
			must(t, err)
			if err := d.CheckRunFiles(at("place")); errors.Is(err, spec.ErrDenied) != c.around || (err != nil) != c.around {
				t.Errorf("a directory for runs: %v", err)
			}
			must(t, d.CheckStart(sb))
			must(t, os.MkdirAll(at("place"), 0o700))
			r, err := runs.CreateFlow(st.Runs(), at("place"), "one", nil, nil)
			must(t, err)
			for range 2 {
				if err := d.CheckStart(sb); errors.Is(err, spec.ErrConflict) != c.refused || (err != nil) != c.refused {
					t.Errorf("beside a run: %v", err)
				}
				must(t, os.RemoveAll(r.Dir()))
			}
			must(t, r.Remove())
			must(t, d.CheckStart(sb))
			must(t, st.Remove(sb.ID))
		})
	}
	must(t, os.WriteFile(filepath.Join(st.Runs(), ".at-x"), nil, 0o600)) // an unreadable entry
	if err := d.CheckStart(&spec.Sandbox{Workspaces: []spec.Mount{{Source: base}}}); err == nil {
		t.Error("it starts though it is not known where runs are")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
