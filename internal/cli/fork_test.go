package cli

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// Where not all forks can be made, those that were made are told, whoever reads it.
func TestForkHalfway(t *testing.T) {
	aside(t)
	for _, name := range []string{"bb", "ff-2", "gg-1"} {
		_, err := called(t, "create", "--name", name, "--workspace", spec.WorkspaceReview, "shell", ".")
		must(t, err)
	}
	out, err := called(t, "fork", "bb", "-n", "2", "--name", "ff", "--files", "--json")
	var made []spec.Sandbox
	if jerr := json.Unmarshal([]byte(out), &made); jerr != nil || len(made) != 1 || made[0].Name != "ff-1" || !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%v, printed %s: %v", err, out, jerr)
	}
	if out, err := called(t, "fork", "bb", "-n", "2", "--name", "gg", "--files", "--json"); out != "" || !errors.Is(err, spec.ErrConflict) {
		t.Errorf("none was made: %v, printed %s", err, out)
	}
	if out, err := called(t, "fork", "bb", "-n", "2", "--name", "hh", "--files"); out != "hh-1\nhh-2\n" || err != nil {
		t.Errorf("%v, printed %s", err, out)
	}
}
