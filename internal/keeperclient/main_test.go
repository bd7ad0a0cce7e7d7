package keeperclient

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestMain plays a keeper that hangs.
func TestMain(m *testing.M) {
	if os.Args[0] == keeper.Argv0 {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newKeepers returns the keepers of a state directory with one sandbox.
func newKeepers(t *testing.T) (Keepers, *spec.Sandbox) {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	sb := &spec.Sandbox{Version: spec.Version, ID: store.NewID(), Name: "box", Agent: "shell", Template: spec.TemplateHost}
	_, err = st.Create(sb)
	must(t, err)
	return Keepers{Store: st, Say: func(string, ...any) {}}, sb
}
