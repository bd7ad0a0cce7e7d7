package otheragent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/vault/sealer"
	"github.com/bothy-dev/bothy/spec"
)

// TestMain plays the process that opens secrets.
func TestMain(m *testing.M) {
	if os.Args[0] == vault.Argv0 {
		os.Exit(sealer.Main(os.Stdin, os.Stdout))
	}
	for _, name := range []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "BOTHY_VAULT_PASSPHRASE_FILE"} {
		_ = os.Unsetenv(name)
	}
	os.Exit(m.Run())
}

const canary = "sk-canary-0123456789abcdef"

var here = context.Background()

func stored(name, value string) credential.NewSecret {
	return credential.NewSecret{Name: name, Source: vault.Source{Kind: vault.SourceStored}, Value: []byte(value)}
}

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

func rule(t testing.TB, a policy.Action, target string) policy.Rule {
	t.Helper()
	r, err := policy.ParseRule(a, target)
	must(t, err)
	return r
}
