package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestServerEnv checks that every agent that can be told of a model server gets an address that works
// inside, and a text for the key.
func TestServerEnv(t *testing.T) {
	c := NewCatalog("")
	names, err := c.Names()
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, name := range names {
		a, err := c.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if a.Server == nil {
			continue
		}
		told++
		s, err := spec.NewModelServer("http://localhost:4000/v1", "", "my-model")
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(ServerEnv(a, s), "\n")
		for _, f := range a.Home {
			if slices.Contains(f.Lent, LentServer) || slices.Contains(f.Lent, LentModel) {
				text, err := Expand(f.Text, func(word string) (string, bool) {
					value, ok := ServerWord(word, s)
					return value, ok || word == "workspace"
				})
				if err != nil {
					t.Errorf("%s: %s: %v", name, f.Path, err)
				}
				all += text
			}
		}
		for _, want := range []string{"http://host.bothy:4000", "my-model", a.Server.Key[0] + "=none"} {
			if !strings.Contains(all, want) {
				t.Errorf("%s hears nothing of %s: %s", name, want, all)
			}
		}
		if strings.Contains(all, "{server") {
			t.Errorf("%s: a word is left: %s", name, all)
		}
		s.Key = "own"
		if env := ServerEnv(a, s); slices.Contains(env, a.Server.Key[0]+"=none") {
			t.Errorf("%s: the key would be hidden: %v", name, env)
		}
	}
	if told < 5 {
		t.Errorf("only %d agents can be told", told)
	}
}
