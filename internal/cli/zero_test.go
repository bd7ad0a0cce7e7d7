package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestZeroIsNoLimit checks that an option which asks for no limit is refused for a sandbox that was made with
// one, instead of being ignored.
func TestZeroIsNoLimit(t *testing.T) {
	aside(t)
	_, err := called(t, "create", "--name", "box", "--max-tokens", "9", "--idle-timeout", "1h", "shell", ".")
	must(t, err)
	for _, option := range []string{"--max-tokens=0", "--idle-timeout=0"} {
		for _, words := range [][]string{{"run", option, "--name", "box"}, {"run", option, "shell", "."}} {
			if _, err := called(t, words...); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "exists with other") {
				t.Errorf("%q: %v", words, err)
			}
		}
	}
}
