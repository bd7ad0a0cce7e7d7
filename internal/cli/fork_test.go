package cli

import (
	"encoding/json"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestForkTaken checks that a taken name leaves neither a fork nor a checkpoint behind.
func TestForkTaken(t *testing.T) {
	aside(t)
	for _, name := range []string{"bb", "ff-2", "gg-1"} {
		_, err := called(t, "create", "--name", name, "--workspace", spec.WorkspaceReview, "shell", ".")
		must(t, err)
	}
	for _, name := range []string{"ff", "gg", "no/name"} {
		if out, err := called(t, "fork", "bb", "-n", "2", "--name", name, "--files", "--json"); out != "" || err == nil {
			t.Errorf("%s: %v, printed %s", name, err, out)
		}
	}
	var list struct{ Checkpoints []any }
	out, err := called(t, "checkpoint", "ls", "bb", "--json")
	must(t, err)
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Checkpoints) > 0 {
		t.Errorf("%v: there are %s", err, out)
	}
	if out, err := called(t, "fork", "bb", "-n", "2", "--name", "hh", "--files"); out != "hh-1\nhh-2\n" || err != nil {
		t.Errorf("%v, printed %s", err, out)
	}
	var made []spec.Sandbox
	out, err = called(t, "fork", "bb", "--files", "--json")
	must(t, err)
	if err := json.Unmarshal([]byte(out), &made); err != nil || len(made) != 1 || made[0].Name != "bb-fork-1" {
		t.Errorf("%v, printed %s", err, out)
	}
}
