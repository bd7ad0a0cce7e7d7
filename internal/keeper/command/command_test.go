package command

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func TestLastWins(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"no doubles", "A=1 B=2", "A=1 B=2"},
		{"the last", "A=1 B=2 A=3", "B=2 A=3"},
		{"thrice", "A=1 A=2 A=3", "A=3"},
		{"empty is a value", "A=1 A=", "A="},
		{"an equals sign in the value", "A=x=y A=z=", "A=z="},
		{"no variable", "A B=1 C", "B=1"},
		{"other case is another name", "a=1 A=2", "a=1 A=2"},
		{"a prefix is another name", "AB=1 A=2", "AB=1 A=2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(lastWins(strings.Fields(tt.in)), " "); got != tt.want {
				t.Errorf("lastWins() = %q, want %q", got, tt.want)
			}
		})
	}
}

// TestLastWinsProperties checks that the result has each name once, with its last value, and that a
// second pass does not change it.
func TestLastWinsProperties(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		var env []string
		want := map[string]string{}
		for range r.IntN(30) {
			kv := string(rune('A'+r.IntN(5))) + []string{"=", "=v", "==", ""}[r.IntN(4)]
			env = append(env, kv)
			if name, value, ok := strings.Cut(kv, "="); ok {
				want[name] = value
			}
		}
		before := slices.Clone(env)
		out := lastWins(env)
		got := map[string]string{}
		for _, kv := range out {
			name, value, _ := strings.Cut(kv, "=")
			got[name] = value
		}
		if len(out) != len(want) || !reflect.DeepEqual(got, want) || !slices.Equal(lastWins(out), out) || !slices.Equal(env, before) {
			t.Fatalf("%q became %q", before, out)
		}
	}
}

func preparing() *Preparer {
	return New(Options{
		Spec:    &spec.Sandbox{ID: "0123456789ab", Name: "box", Env: []string{"FROM=spec", "HOME=/elsewhere", "PIP_CERT=/corp.pem"}},
		Launch:  &launch.Settings{},
		Account: wire.Account{Name: "me", UID: 1000, GID: 1000, Home: "/home/me", Shell: "/bin/bash"},
	})
}

func TestEnvironment(t *testing.T) {
	m := preparing()
	env := map[string]string{}
	for _, kv := range m.environment(m.Account, wire.Command{Env: []string{"FROM=command", "X=1", "nonsense"}}, nil, false) {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := env[name]; twice {
			t.Errorf("%s stands there twice", name)
		}
		env[name] = value
	}
	for name, want := range map[string]string{"FROM": "command", "X": "1", "HOME": "/elsewhere", "USER": "me", "SANDBOX_NAME": "box", "IS_SANDBOX": "1", "SHELL": "/bin/bash", "SSL_CERT_FILE": trust.Bundle, "PIP_CERT": "/corp.pem"} {
		if env[name] != want {
			t.Errorf("%s=%q, want %q", name, env[name], want)
		}
	}
	if _, ok := env["nonsense"]; ok {
		t.Error("what is no variable is in it")
	}
}

func TestResolve(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*Preparer)
		command wire.Command
		dir     string
		args    []string
		err     error
	}{
		{"nothing asked for", nil, wire.Command{}, "/home/me", []string{"/bin/bash"}, nil},
		{"a workspace", func(m *Preparer) { m.Spec.Workspaces = []spec.Mount{{Source: "/a", Target: "/b"}} }, wire.Command{Args: []string{"ls"}}, "/b", []string{"ls"}, nil},
		{"a workdir", func(m *Preparer) { m.Spec.Workdir = "/w" }, wire.Command{}, "/w", []string{"/bin/bash"}, nil},
		{"a directory", func(m *Preparer) { m.Spec.Workdir = "/w" }, wire.Command{Dir: "/d"}, "/d", []string{"/bin/bash"}, nil},
		{"an image's directory", func(m *Preparer) { m.Launch.Image = &image.Root{Workdir: "/srv/w"} }, wire.Command{}, "/srv/w", []string{"/bin/bash"}, nil},
		{"an image's directory that is hidden", func(m *Preparer) { m.Launch.Image = &image.Root{Workdir: "/tmp/w"} }, wire.Command{}, "/home/me", []string{"/bin/bash"}, nil},
		{"an image's directory that a volume lies over", func(m *Preparer) {
			m.Launch.Image = &image.Root{Workdir: "/tmp/w"}
			m.Spec.Volumes = []spec.Mount{{Source: "/a", Target: "/tmp/w"}}
		}, wire.Command{}, "/tmp/w", []string{"/bin/bash"}, nil},
		{"an image's directory in one that is private", func(m *Preparer) {
			m.Launch.Image = &image.Root{Workdir: "/dev/shm/p/w"}
			m.Spec.Private = []string{"/dev/shm/p"}
		}, wire.Command{}, "/dev/shm/p/w", []string{"/bin/bash"}, nil},
		{"an image's directory beside a volume", func(m *Preparer) {
			m.Launch.Image = &image.Root{Workdir: "/tmp/w2"}
			m.Spec.Volumes = []spec.Mount{{Source: "/a", Target: "/tmp/w"}, {Source: "/b", Target: "/tmp/w2/below"}}
		}, wire.Command{}, "/home/me", []string{"/bin/bash"}, nil},
		{"a relative directory", nil, wire.Command{Dir: "d"}, "", nil, spec.ErrUsage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := preparing()
			if tt.change != nil {
				tt.change(m)
			}
			r, err := m.Resolve(context.Background(), tt.command)
			if !errors.Is(err, tt.err) {
				t.Fatalf("resolve() = %v, want %v", err, tt.err)
			}
			p := r.process
			if err == nil && (p.Dir != tt.dir || !slices.Equal(p.Args, tt.args) || p.UID != 1000) {
				t.Errorf("resolve() = %+v, want %q in %s", p, tt.args, tt.dir)
			}
		})
	}
}
