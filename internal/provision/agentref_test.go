package provision

import (
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCommand checks that arguments reach the agent, and that it has all permissions, whichever
// subcommand its one-shot form begins with.
func TestCommand(t *testing.T) {
	a := &spec.Agent{Program: "mine", Args: []string{"--all"}, Subcommands: []string{"exec"}}
	for _, tt := range []struct {
		r    AgentRef
		args string
		want string
	}{
		{AgentRef{Spec: a}, "", "mine --all"},
		{AgentRef{Spec: a}, "-p hi", "mine --all -p hi"},
		{AgentRef{Spec: a}, "exec hi", "mine exec --all hi"},
		{AgentRef{Spec: a}, "exec", "mine exec --all"},
		{AgentRef{Spec: a}, "./exec hi", "./exec hi"},
		{AgentRef{Spec: a}, "mine exec hi", "mine exec hi"},
		{AgentRef{Spec: a}, "make test", "make test"},
		{AgentRef{Argv: []string{"/opt/x"}}, "exec hi", "/opt/x exec hi"},
		{AgentRef{}, "exec hi", "exec hi"},
		{AgentRef{}, "-c hi", "/bin/sh -c hi"},
		{AgentRef{}, "", ""},
	} {
		if got := tt.r.Command(strings.Fields(tt.args)); !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%+v with %q runs %q, not %q", tt.r, tt.args, got, tt.want)
		}
	}
}

// TestExplainMissing checks that the hint for a missing agent offers the installation by Bothy.
func TestExplainMissing(t *testing.T) {
	sb := &spec.Sandbox{Name: "box"}
	gone := spec.Errorf(spec.ErrNoSuchBinary, "mine: command not found in the sandbox")
	r := &AgentRef{Spec: &spec.Agent{Name: "mine", Program: "mine", Install: &spec.AgentSource{}}}
	if hint := spec.Hint(r.ExplainMissing(gone, []string{"mine"}, sb)); !strings.Contains(hint, "bothy run --agent-version latest box") {
		t.Errorf("hint %q", hint)
	}
	if hint := spec.Hint(r.ExplainMissing(gone, []string{"/opt/other"}, sb)); hint != "" {
		t.Errorf("hint %q for another program", hint)
	}
	r.Spec.Args = []string{"--all"}
	if hint := spec.Hint(r.ExplainMissing(gone, []string{"login"}, sb)); !strings.HasSuffix(hint, "write its whole command: -- mine --all ...") {
		t.Errorf("hint %q for what may have been meant for the agent", hint)
	}
	r.Spec.Get = "ask {sandbox}"
	if hint := spec.Hint(r.ExplainMissing(gone, []string{"mine"}, sb)); hint != "ask box" {
		t.Errorf("hint %q where its description has one", hint)
	}
}

func TestShellCommand(t *testing.T) {
	tests := []struct{ args, want []string }{
		{nil, nil},
		{[]string{"make", "-j"}, []string{"make", "-j"}},
		{[]string{"-c", "echo hi"}, []string{"/bin/sh", "-c", "echo hi"}},
		{[]string{"-"}, []string{"/bin/sh", "-"}},
	}
	for _, tt := range tests {
		if got := shellCommand(tt.args); !slices.Equal(got, tt.want) {
			t.Errorf("shellCommand(%q) = %q, want %q", tt.args, got, tt.want)
		}
	}
}
