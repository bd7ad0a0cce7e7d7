package reconfigure

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// script writes a script and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// read reads a script.
func read(t *testing.T, e *engine.Engine, text string, a *spec.Agent) *modelmock.Mock {
	t.Helper()
	paths, err := e.Paths()
	must(t, err)
	m, err := modelmock.Read(paths, script(t, text), a)
	must(t, err)
	return m
}

// mocked makes a sandbox whose models are played.
func mocked(t *testing.T, e *engine.Engine, a *spec.Agent, text string) *spec.Sandbox {
	t.Helper()
	m := read(t, e, text, a)
	sb := wish(t.TempDir())
	if a != nil {
		sb.Agent = a.Name
	}
	sb.Env = []string{"MINE=1"}
	m.Apply(sb)
	must(t, e.Create(t.Context(), sb, m.Write))
	return sb
}

const hello = "turns: [{text: hello}]\n"

// TestChangeMock checks that a script can be replaced while the sandbox does not run.
func TestChangeMock(t *testing.T) {
	e := newEngine(t)
	sb := mocked(t, e, nil, hello)
	key := sb.Mock.Keys["anthropic"]
	made, err := e.Find(sb.Name)
	must(t, err)
	if text, err := os.ReadFile(e.Store.Sandbox(sb.ID).Mock()); err != nil || string(text) != hello || made.Mock.Script != sb.Mock.Script {
		t.Errorf("%q, %v, %+v", text, err, made.Mock)
	}
	m := read(t, e, "turns: [{text: bye}]\n", nil)
	must(t, Mock(here, e, sb, m))
	now, err := e.Find(sb.Name)
	must(t, err)
	text, _ := os.ReadFile(e.Store.Sandbox(sb.ID).Mock())
	if string(text) != "turns: [{text: bye}]\n" || now.Mock.Script != m.Mock.Script || now.Mock.Keys["anthropic"] != key || sb.Mock.Script != m.Mock.Script {
		t.Errorf("%s, %+v", text, now.Mock)
	}

	d := e.Store.Sandbox(sb.ID)
	lock, err := store.TryLock(d.Lock())
	must(t, err)
	defer lock.Unlock()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.Control(), Net: "unix"})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() { // a keeper that greets
		for {
			uc, err := l.AcceptUnix()
			if err != nil {
				return
			}
			c := unixconn.New(uc)
			_ = c.SendJSON(wire.Hello, wire.Greeting{Protocol: wire.Protocol})
			c.Close()
		}
	}()
	must(t, Mock(here, e, sb, m)) // it runs with this script
	first := read(t, e, hello, nil)
	if err := Mock(here, e, sb, first); !errors.Is(err, spec.ErrConflict) || !strings.Contains(spec.Hint(err), "bothy stop") {
		t.Errorf("%v", err)
	}
}
