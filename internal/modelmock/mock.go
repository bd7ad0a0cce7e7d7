// Package modelmock makes a script answer a sandbox in the place of models: it reads and checks the
// script, and makes the keys with which the sandbox's agent logs in.
package modelmock

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/modelscript"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Mock is a script that was read and checked, for a sandbox whose models it plays.
type Mock struct {
	spec.Mock
	text []byte
	env  []string // for the agent
}

// Read reads a script for a sandbox of an agent. A nil agent means a shell, or any other program. The
// script plays every provider of models that has a service. The agent gets a key for the first
// provider that it can log in to; a shell gets one for each provider. paths opens the script.
func Read(paths *hostpath.Guard, file string, a *spec.Agent) (*Mock, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	text, err := readScript(paths, path)
	if err != nil {
		return nil, err
	}
	m, err := withoutText(path, a)
	if err == nil {
		m.text = text
	}
	return m, err
}

// withoutText returns a mock without the text of its script.
func withoutText(path string, a *spec.Agent) (*Mock, error) {
	m := &Mock{Mock: spec.Mock{Script: path, Keys: map[string]string{}}}
	services, err := playedServices(a)
	if err != nil {
		return nil, err
	}
	for _, s := range services {
		m.Keys[s.Name] = vault.Placeholder(s, nil)
	}
	if a != nil {
		m.env = agentEnv(a, m.Keys)
	}
	m.Hosts = vault.ModelHosts()
	return m, nil
}

// agentEnv returns the variables that tell an agent of a model that is played.
func agentEnv(a *spec.Agent, keys map[string]string) []string {
	services, err := playedServices(a)
	if a.Mock == nil || err != nil {
		return nil
	}
	return agent.MockEnv(a.Mock, keys[services[0].Name])
}

// CheckPlayable refuses an agent for which no model can be played.
func CheckPlayable(a *spec.Agent) error {
	_, err := playedServices(a)
	return err
}

// Like returns a mock with the script of a sandbox for another agent, whose sandbox gets a copy of
// that script. It is nil if the sandbox's models are not played.
func Like(sb *spec.Sandbox, a *spec.Agent) (*Mock, error) {
	if sb.Mock == nil {
		return nil, nil
	}
	return withoutText(sb.Mock.Script, a)
}

// readScript reads the script of a model, and checks it.
func readScript(paths *hostpath.Guard, path string) ([]byte, error) {
	f, err := paths.OpenRegular(path)
	switch {
	case errors.Is(err, spec.ErrDenied):
		return nil, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, spec.Errorf(spec.ErrNotFound, "%s: %w", spec.Option("mock"), err).
			WithHint("docs/guide/mock.md tells how to write a script")
	case err != nil:
		return nil, spec.Errorf(spec.ErrUsage, "%s: %w", spec.Option("mock"), err)
	}
	defer f.Close()
	text, err := store.ReadAll(f, store.MaxSmall)
	if err == nil {
		_, err = modelscript.Parse(text)
	}
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "%s %s: %w", spec.Option("mock"), path, err).
			WithHint("docs/guide/mock.md tells what a script may say")
	}
	return text, nil
}

// playedServices returns the services for which a made-up key is needed.
func playedServices(a *spec.Agent) ([]*vault.Service, error) {
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
	return nil, spec.Errorf(spec.ErrUsage, "no model can be played for %s: its login is not for a known service of models", a.Title).
		WithHint("its description would name one under mock, or under credentials: see docs/guide/own-agent.md")
}

// onePerHost returns the services of models, without those whose hosts belong to an earlier one.
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

// Apply has a new sandbox's models played. The keys come first in its environment, so that the
// variables of its agent and its user win. A nil mock changes nothing.
func (m *Mock) Apply(sb *spec.Sandbox) {
	if m == nil {
		return
	}
	sb.Mock = &m.Mock
	sb.Env = slices.Concat(keysOf(sb.Mock), m.env, sb.Env)
}

// Env returns the variables that tell an agent of a mock: its keys, and those of the agent's
// description.
func Env(m *spec.Mock, a *spec.Agent) []string {
	return slices.Concat(keysOf(m), agentEnv(a, m.Keys))
}

// keysOf returns the variables with the keys of a mock.
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

// Write writes the script into the directory of a sandbox. A nil mock writes nothing.
func (m *Mock) Write(d store.Sandbox) error {
	if m == nil {
		return nil
	}
	return store.WriteFile(d.Mock(), m.text)
}

// IsScriptOf reports whether a sandbox has this script.
func (m *Mock) IsScriptOf(d store.Sandbox) bool {
	text, err := store.ReadSmall(d.Mock())
	return err == nil && bytes.Equal(text, m.text)
}

// Keys returns the keys that replace the credentials of services in a sandbox whose models are
// played.
func Keys(sb *spec.Sandbox) map[string]string {
	if sb.Mock == nil {
		return nil
	}
	return sb.Mock.Keys
}

// Answers reports whether a sandbox's mock answers for a host's name. Without a sandbox it is false.
func Answers(sb *spec.Sandbox, name string) bool {
	return sb != nil && sb.Mock != nil && slices.Contains(sb.Mock.Hosts, name)
}

// Note tells the user that a sandbox's models are played.
func Note(sb *spec.Sandbox) string {
	return fmt.Sprintf("no model is asked: the mock of sandbox %s answers from %s; to end that: bothy rm %s", sb.Name, sb.Mock.Script, sb.Name)
}
