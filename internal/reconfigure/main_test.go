package reconfigure

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

var here = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return &engine.Engine{Store: s, Version: "test"}
}

// wish returns a sandbox of the shell in a directory.
func wish(dir string) *spec.Sandbox {
	return &spec.Sandbox{
		Version: spec.Version, ID: store.NewID(), Agent: "shell", Template: spec.TemplateHost, Driver: "gvisor", CreatedAt: time.Now().UTC(),
		Workspaces: []spec.Mount{{Source: dir, Target: dir}},
	}
}
