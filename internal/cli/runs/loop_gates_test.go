package runs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
)

// TestProtectTwice checks that a path protected both by the flag and by the file is listed once.
func TestProtectTwice(t *testing.T) {
	f := &loopFlags{gates: filepath.Join(t.TempDir(), "gates.yaml")}
	must(t, os.WriteFile(f.gates, []byte("protect: [tests, Makefile]\ngates: [{id: a, command: make}]\n"), 0o600))
	f.plan.Protect = []string{"Makefile"}
	must(t, f.readGates(newApp(&cmdline.App{Console: &console.Console{}, Guard: new(hostpath.Guard)})))
	if want := []string{"Makefile", "tests"}; !slices.Equal(f.plan.Protect, want) {
		t.Errorf("protected is %q, not %q", f.plan.Protect, want)
	}
}

// TestSchemasAgree checks that the schemas of flows and of gates describe shared parts in the same
// words.
func TestSchemasAgree(t *testing.T) {
	var defs [2]struct {
		Defs map[string]any `json:"$defs"`
	}
	for i, text := range []string{flowplan.Schema(), loopplan.Schema()} {
		if err := json.Unmarshal([]byte(text), &defs[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"checks", "name", "texts", "count"} {
		if defs[0].Defs[name] == nil {
			t.Errorf("there is no %s", name)
		}
		if !reflect.DeepEqual(defs[0].Defs[name], defs[1].Defs[name]) {
			t.Errorf("of a flow %s is %v, of a gate %v", name, defs[0].Defs[name], defs[1].Defs[name])
		}
	}
}
