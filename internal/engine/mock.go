package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/modelscript"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Mock is a script that was read and checked, for a sandbox whose models are to
// be played.
type Mock struct {
	spec.Mock
	text []byte
	env  []string // for the agent
}

// NewMock reads a script for a sandbox of an agent; nil stands for a shell, and
// for any other program. A sandbox plays every provider of models there is a
// service of. Its agent gets a key for the first that it can log in with; others
// get one for each provider.
func (e *Engine) NewMock(file string, a *spec.Agent) (*Mock, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	text, err := e.readScript(path)
	if err != nil {
		return nil, err
	}
	m, err := newMock(path, a)
	if err == nil {
		m.text = text
	}
	return m, err
}

// newMock is one without the text of its script.
func newMock(path string, a *spec.Agent) (*Mock, error) {
	m := &Mock{Mock: spec.Mock{Script: path, Keys: map[string]string{}}}
	services, err := playedFor(a)
	if err != nil {
		return nil, err
	}
	for _, s := range services {
		m.Keys[s.Name] = vault.Placeholder(s, nil)
	}
	if a != nil {
		m.env = mockEnv(a, m.Keys)
	}
	m.Hosts = modelHosts()
	return m, nil
}

// mockEnv is what an agent is told of a model that is played.
func mockEnv(a *spec.Agent, keys map[string]string) []string {
	services, err := playedFor(a)
	if a.Mock == nil || err != nil {
		return nil
	}
	return agent.MockEnv(a.Mock, keys[services[0].Name])
}

// Metered tells whether a gateway sees what an agent asks models, as far as its description
// says: what it can log in with is for hosts of models that are known.
func Metered(a *spec.Agent) bool {
	return slices.ContainsFunc(a.Credentials, func(name string) bool {
		s := vault.FindService(name)
		return s != nil && (s.Model || len(s.Counted) > 0)
	})
}

// MeteredSecret tells whether a gateway sees what is asked with a secret, where that is lent
// for its usual hosts.
func (e *Engine) MeteredSecret(name string) (bool, error) {
	s, err := e.Credentials().Values.Secret(name)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(vault.HostsOf(s, vault.Terms{}), isModelHost), nil
}

// MeteredLease tells whether a gateway sees what is asked with a lease.
func MeteredLease(l *spec.Lease) bool { return slices.ContainsFunc(l.Hosts, isModelHost) }

// isModelHost tells whether a host, or one of those of a pattern, is one at which models
// answer in a way that a gateway can read.
func isModelHost(target string) bool {
	name, _, _ := strings.Cut(strings.ToLower(target), ":")
	known := append(modelHosts(), countedHosts()...)
	if below := strings.TrimLeft(name, "*"); below != name {
		return slices.ContainsFunc(known, func(host string) bool { return strings.HasSuffix(host, below) })
	}
	return slices.Contains(known, name)
}

// Playable refuses an agent for which no model can be played.
func Playable(a *spec.Agent) error {
	_, err := playedFor(a)
	return err
}

// playedBy has another agent play by the script of a sandbox, of which it gets a copy;
// nil if that one's models are not played.
func playedBy(sb *spec.Sandbox, a *spec.Agent) (*Mock, error) {
	if sb.Mock == nil {
		return nil, nil
	}
	return newMock(sb.Mock.Script, a)
}

// readScript reads what a model is to say, and checks it.
func (e *Engine) readScript(path string) ([]byte, error) {
	paths, err := e.Paths()
	if err != nil {
		return nil, err
	}
	f, err := paths.OpenRegular(path)
	switch {
	case errors.Is(err, spec.ErrDenied):
		return nil, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, (&spec.Error{Class: spec.ErrNotFound, Op: "--mock", Err: err}).
			WithHint("docs/guide/mock.md tells how to write a script")
	case err != nil:
		return nil, &spec.Error{Class: spec.ErrUsage, Op: "--mock", Err: err}
	}
	defer f.Close()
	text, err := store.ReadAll(f, store.MaxSmall)
	if err == nil {
		_, err = modelscript.Parse(text)
	}
	if err != nil {
		return nil, (&spec.Error{Class: spec.ErrUsage, Op: "--mock " + path, Err: err}).
			WithHint("docs/guide/mock.md tells what a script may say")
	}
	return text, nil
}

// playedFor are the services for which a made-up key is needed.
func playedFor(a *spec.Agent) ([]*vault.Service, error) {
	if a == nil {
		return onePerHost(), nil
	}
	if a.Mock != nil && a.Mock.Service != "" {
		return []*vault.Service{vault.FindService(a.Mock.Service)}, nil
	}
	for _, name := range a.Credentials {
		if s := vault.FindService(name); s != nil && s.Model {
			return []*vault.Service{s}, nil
		}
	}
	return nil, spec.Errorf(spec.ErrUsage, "no model can be played for %s: what it logs in with is no service of models that is known", a.Title).
		WithHint("its description would name one under mock, or under credentials: see docs/guide/own-agent.md")
}

// onePerHost are the services of models, without those for hosts that another
// one, before it, is for.
func onePerHost() (list []*vault.Service) {
	seen := map[string]bool{}
	for i := range vault.Services {
		s := &vault.Services[i]
		if s.Model && !slices.ContainsFunc(s.Hosts, func(h string) bool { return seen[h] }) {
			list = append(list, s)
		}
		if s.Model {
			for _, h := range s.Hosts {
				seen[h] = true
			}
		}
	}
	return list
}

// modelHosts are the names of all providers of models that can be played.
func modelHosts() []string {
	return namesOf(func(s vault.Service) []string {
		if s.Model {
			return s.Hosts
		}
		return nil
	})
}

// countedHosts are the names at which models answer that a gateway can read, besides
// those that can be played.
func countedHosts() []string {
	return namesOf(func(s vault.Service) []string { return s.Counted })
}

// namesOf are the names of some hosts of all services.
func namesOf(hosts func(vault.Service) []string) (names []string) {
	for _, s := range vault.Services {
		for _, host := range hosts(s) {
			name, _, _ := strings.Cut(host, ":")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Apply has a new sandbox played. Its keys come first in the environment: what
// its agent or the user sets wins.
func (m *Mock) Apply(sb *spec.Sandbox) {
	if m == nil {
		return
	}
	sb.Mock = &m.Mock
	sb.Env = slices.Concat(keysOf(sb.Mock), m.env, sb.Env)
}

// keysOf are the variables with the keys of a mock.
func keysOf(m *spec.Mock) (env []string) {
	for i := range vault.Services {
		s := &vault.Services[i]
		if key := m.Keys[s.Name]; key != "" {
			for _, name := range s.Env {
				env = append(env, name+"="+key)
			}
		}
	}
	return env
}

// Script writes the script of a new sandbox down, for Create; nil writes none.
func Script(m *Mock) func(store.Sandbox) error {
	return func(d store.Sandbox) error {
		if m == nil {
			return nil
		}
		return store.WriteFile(d.Mock(), m.text)
	}
}

// ChangeMock has a sandbox whose models are played say what another script tells,
// from its next start on. One that runs keeps what it has: that is an error of
// class [spec.ErrConflict], unless it has this script already.
func (e *Engine) ChangeMock(ctx context.Context, sb *spec.Sandbox, m *Mock) error {
	lock, err := e.Store.PolicyLock() // so that nobody changes the ports meanwhile
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return e.tell(ctx, sb, func(_ context.Context, c *unixconn.Conn) error {
		c.Close()
		return e.Plays(sb, m)
	}, func() error { return e.writeMock(sb, m) })
}

// Plays accepts that a sandbox which runs has this script; nil is any.
func (e *Engine) Plays(sb *spec.Sandbox, m *Mock) error {
	if m == nil || e.hasScript(sb, m) {
		return nil
	}
	return spec.Errorf(spec.ErrConflict, "sandbox %s runs with another script of its mock", sb.Name).
		WithHint("when nothing in it is at work: bothy stop %s, then run this again", sb.Name)
}

func (e *Engine) hasScript(sb *spec.Sandbox, m *Mock) bool {
	text, err := store.ReadSmall(e.Store.Sandbox(sb.ID).Mock())
	return err == nil && bytes.Equal(text, m.text)
}

// writeMock changes the script of a sandbox that nobody can start meanwhile. What
// counts is written first.
func (e *Engine) writeMock(sb *spec.Sandbox, m *Mock) error {
	if e.hasScript(sb, m) && sb.Mock.Script == m.Script {
		return nil
	}
	now, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	if now.Mock == nil { // it was removed, and made again
		return spec.Errorf(spec.ErrConflict, "sandbox %s was made anew just now", sb.Name).WithHint("run it again")
	}
	d := e.Store.Sandbox(sb.ID)
	now.Mock.Script = m.Script
	err = store.WriteFile(d.Mock(), m.text)
	if err == nil {
		err = store.WriteJSON(d.Spec(), now)
	}
	if err != nil {
		return &spec.Error{Op: "change the script of " + sb.Name, Err: err}
	}
	sb.Mock = now.Mock
	return nil
}

// mockKeys are what stands for the credentials of services in a sandbox whose
// models are played.
func mockKeys(sb *spec.Sandbox) map[string]string {
	if sb.Mock == nil {
		return nil
	}
	return sb.Mock.Keys
}

// MockAnswers tells whether a sandbox's mock answers for a name; without a
// sandbox it does not.
func MockAnswers(sb *spec.Sandbox, name string) bool {
	return sb != nil && sb.Mock != nil && slices.Contains(sb.Mock.Hosts, name)
}

// MockNote says that a sandbox's models are played.
func MockNote(sb *spec.Sandbox) string {
	return fmt.Sprintf("no model is asked: the mock of sandbox %s says what it was told by %s; to end that: bothy rm %s", sb.Name, sb.Mock.Script, sb.Name)
}
