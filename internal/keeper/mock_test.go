package keeper

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestOpenMock checks that a sandbox with mocked models does not start without its script, and that it
// logs their requests.
func TestOpenMock(t *testing.T) {
	dir := store.Sandbox{Dir: t.TempDir()}
	must(t, os.Mkdir(dir.Log(""), 0o700))
	sb := &spec.Sandbox{}
	if m, err := openMock(sb, dir, quiet()); m != nil || err != nil {
		t.Errorf("without a mock: %v, %v", m, err)
	}
	sb.Mock = &spec.Mock{Hosts: []string{"api.example.com"}}
	if _, err := openMock(sb, dir, quiet()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a script: %v", err)
	}
	must(t, os.WriteFile(dir.Mock(), []byte("turns: [{}]"), 0o600))
	if _, err := openMock(sb, dir, quiet()); err == nil || !strings.Contains(err.Error(), "mock.yaml: line 1: ") {
		t.Errorf("with a bad script: %v", err)
	}
	must(t, os.WriteFile(dir.Mock(), []byte("turns: [{text: hello}]"), 0o600))
	m, err := openMock(sb, dir, quiet())
	must(t, err)
	turn := 0
	m.Asked(spec.ModelRequest{N: 1, Host: "api.example.com", Turn: &turn, Outcome: "answered"})
	var got []spec.ModelRequest
	must(t, audit.Read(dir.ModelLog(), func(ev audit.Event) error {
		var r spec.ModelRequest
		err := ev.Decode(&r)
		got = append(got, r)
		return err
	}))
	if len(got) != 1 || got[0].Event != spec.ModelAsked || got[0].Time.IsZero() || got[0].Host != "api.example.com" || got[0].Turn == nil || len(m.Hosts) != 1 {
		t.Errorf("%+v", got)
	}
}
