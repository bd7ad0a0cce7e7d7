package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// ownAgent writes a description, which may go on as is said, and gives its file.
func ownAgent(t *testing.T, name, more string) string {
	t.Helper()
	file := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "bothy", "agents", name+".yaml")
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must(t, os.WriteFile(file, []byte("version: 1\nname: "+name+"\ntitle: Own\nprogram: id\n"+more), 0o600))
	return file
}

// Who runs an agent whose description is gone, or has a mistake in it, gets no shell.
func TestNoShellInstead(t *testing.T) {
	aside(t)
	file := ownAgent(t, "mine", "")
	_, err := called(t, "create", "--name", "box", "mine", ".")
	must(t, err)
	must(t, os.Remove(file))
	for _, words := range [][]string{{"run", "box"}, {"run", "--name", "box"}} {
		if _, err := called(t, words...); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "the agent mine, whose description is gone") {
			t.Errorf("%q: %v", words, err)
		}
	}
	ownAgent(t, "mine", "presets: [nosuch]\n")
	for _, words := range [][]string{{"run", "box"}, {"run", "--name", "box"}, {"run", "mine", "."}, {"create", "mine", "."}} {
		if _, err := called(t, words...); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), `mine.yaml: presets: no preset "nosuch"`) {
			t.Errorf("%q: %v", words, err)
		}
	}
}
