package netrules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestRulesForRemoved checks that a sandbox that is removed meanwhile needs no rules.
func TestRulesForRemoved(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	sb := &spec.Sandbox{Version: spec.Version, ID: store.NewID(), Name: "box", Agent: "shell", Template: spec.TemplateHost}
	_, err = st.Create(sb)
	must(t, err)
	must(t, os.RemoveAll(st.Sandbox(sb.ID).Dir))
	r := Rules{keeperclient.Keepers{Store: st, Say: func(string, ...any) {}}}
	must(t, r.announce(t.Context(), []*spec.Sandbox{sb}))
}
