package snapshot

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newSnapshots returns the snapshots of an empty state directory.
func newSnapshots(t testing.TB) *Snapshots {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	e := &engine.Engine{Store: st, Version: "test"}
	s := New(e)
	s.Attach()
	return s
}

// wish returns a sandbox of the shell in a directory.
func wish(dir string) *spec.Sandbox {
	sb := &spec.Sandbox{Version: spec.Version, ID: store.NewID(), Agent: "shell", Template: spec.TemplateHost, Driver: "gvisor", CreatedAt: time.Now().UTC()}
	if dir != "" {
		sb.Workspaces = []spec.Mount{{Source: dir, Target: dir}}
	}
	return sb
}

// names returns the names of all sandboxes, sorted.
func names(t testing.TB, s *Snapshots) []string {
	t.Helper()
	list, err := s.engine.List()
	must(t, err)
	var out []string
	for _, i := range list {
		out = append(out, i.Spec.Name)
	}
	return out
}

// hearing records the messages to the user.
func hearing(s *Snapshots) *[]string {
	said := &[]string{}
	s.engine.Progress = func(text string) { *said = append(*said, text) }
	return said
}

// newMovable makes a sandbox of a workspace that can be moved away.
func newMovable(t *testing.T) (*Snapshots, string, *spec.Sandbox) {
	s := newSnapshots(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	dir = filepath.Join(dir, "work")
	must(t, os.Mkdir(dir, 0o755))
	sb := wish(dir)
	must(t, s.engine.Create(t.Context(), sb))
	return s, dir, sb
}

// followedKeeper is a keeper that tells its follower of one event. It refuses all else.
type followedKeeper struct{ follow func() wire.Happened }

func (f *followedKeeper) serve(t *testing.T, d store.Sandbox) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.Control(), Net: "unix"})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			uc, err := l.AcceptUnix()
			if err != nil {
				return
			}
			c := unixconn.New(uc)
			_ = c.SendJSON(wire.Hello, wire.Greeting{Protocol: wire.Protocol})
			var ask wire.Ask
			if c.Expect(wire.Request, &ask) == nil {
				if ask.Op == wire.OpFollow {
					_ = c.SendJSON(wire.Reply, f.follow())
				} else {
					_ = c.SendError(spec.Errorf(nil, "no"))
				}
			}
			c.Close()
		}
	}()
}
