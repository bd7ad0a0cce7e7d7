package cli

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/loop"
)

// TestSchemasAgree sees that documents of flows and of gates are described in the same
// words.
func TestSchemasAgree(t *testing.T) {
	var defs [2]struct {
		Defs map[string]any `json:"$defs"`
	}
	for i, text := range []string{flow.Schema(), loop.Schema()} {
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
