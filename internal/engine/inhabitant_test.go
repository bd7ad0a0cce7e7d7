package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

const lodgersOwn = "version: 1\nname: mine\ntitle: Mine\nprogram: mine\ncredentials: [openai]\nlogins: [.mine]\nhome: [{path: .mine.json, text: '{}'}]\n"

// TestDescriptionGone checks that an agent without its description is not taken for a program of the
// user's own. Its home is not begun without its files, no copy gets its login, and its credentials from
// the environment are lent to no sandbox.
func TestDescriptionGone(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"gone":   os.Remove,
		"broken": func(file string) error { return os.WriteFile(file, []byte(lodgersOwn+"presets: [nosuch]\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			e, _, said := signedIn(t)
			dir := t.TempDir()
			file := filepath.Join(dir, "mine.yaml")
			must(t, os.WriteFile(file, []byte(lodgersOwn), 0o600))
			e.Agents = agent.NewCatalog(dir)
			sb := wish(t.TempDir())
			sb.Name, sb.Agent = "box", "mine"
			must(t, e.Create(t.Context(), sb))
			t.Setenv("OPENAI_API_KEY", canary)
			a, err := e.Agents.In(sb)
			must(t, err)
			secret, err := e.Credentials().SecretFor(here, a)
			must(t, err)
			_, err = e.Credentials().LendCredential(here, sb, a, secret, vault.Terms{})
			must(t, err)
			must(t, spoil(file))

			home, err := os.OpenRoot(e.Store.Sandbox(sb.ID).Home())
			must(t, err)
			defer home.Close()
			must(t, home.WriteFile(".mine", []byte("their own"), 0o600))
			for what, err := range map[string]error{"furnish": e.Homes().Furnish(sb), "strip": e.Homes().Strip(sb, home)} {
				if err == nil || errors.Is(err, spec.ErrNotFound) || !strings.Contains(err.Error(), "mine") {
					t.Errorf("%s: %v", what, err)
				}
			}
			*said = nil
			if n := e.Credentials().ForStart(here, sb); len(n.Unlent) != 1 || n.Unlent[0].Secret != secret {
				t.Errorf("lent: %+v", n)
			}
			if len(*said) != 2 || !strings.Contains((*said)[0], "is not kept on the host") {
				t.Errorf("of a login inside it says %q", *said)
			}
			*said = nil
			must(t, e.Homes().Refurnish(sb)) // the sandbox can still be maintained
			if len(*said) != 1 || !strings.Contains((*said)[0], "mine") {
				t.Errorf("said %q", *said)
			}
		})
	}
}
