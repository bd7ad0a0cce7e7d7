package prestart

import (
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestServersOf checks that servers that variables name are recognized, under whatever name the
// inside knows them.
func TestServersOf(t *testing.T) {
	s, err := spec.NewModelServer("https://llm.example", "", "")
	if err != nil {
		t.Fatal(err)
	}
	sb := &spec.Sandbox{ModelServer: s, Env: []string{
		"ANTHROPIC_BASE_URL=http://host.docker.internal:4000/x", "OPENAI_BASE_URL=https://Gate.example/v1", "OPENAI_API_BASE=http://[fd00::1]:8000",
		"OTHER_URL=http://no.example", "EMPTY_BASE_URL=", "ODD_BASE_URL=http://%zz",
	}}
	want := []string{"llm.example:443", "host.bothy:4000", "gate.example:443", "[fd00::1]:8000"}
	if got := serversOf(sb); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
