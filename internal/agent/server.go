package agent

import (
	"maps"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Stand-ins for services, in lent of a file: the sandbox asks a model server of its user's own,
// and it is known what that calls its model.
const (
	LentServer = "model-server"
	LentModel  = "model-server-model"
)

// Words that stand for the model server in what an agent is told of it.
const (
	WordServer    = "server"    // its root
	WordVersioned = "server-v1" // the same, with the version
	WordModel     = "server-model"
)

// noKey is what an agent has for a key where the server wants none: most want something.
const noKey = "none"

// ServerWord gives what such a word stands for; ok tells that it is one.
func ServerWord(word string, s *spec.ModelServer) (value string, ok bool) {
	of := map[string]func(*spec.ModelServer) string{
		WordServer: (*spec.ModelServer).Inside, WordVersioned: (*spec.ModelServer).Versioned,
		WordModel: func(s *spec.ModelServer) string { return s.Model },
	}[word]
	if of == nil || s == nil {
		return "", of != nil
	}
	return of(s), true
}

// ServerEnv tells an agent of a model server of its user's own.
func ServerEnv(a *spec.Agent, s *spec.ModelServer) (env []string) {
	if a.Server == nil || s == nil {
		return nil
	}
	tell := func(all map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			value := all[name]
			for _, word := range []string{WordServer, WordVersioned, WordModel} {
				said, _ := ServerWord(word, s)
				value = strings.ReplaceAll(value, "{"+word+"}", said)
			}
			env = append(env, name+"="+value)
		}
	}
	tell(a.Server.Env)
	if s.Model != "" {
		tell(a.Server.Model)
	}
	if s.Key == "" {
		for _, name := range a.Server.Key {
			env = append(env, name+"="+noKey)
		}
	}
	return env
}

func checkServer(s *spec.AgentServer) error {
	if s == nil {
		return nil
	}
	for _, name := range slices.Concat(s.Key, s.Ignored) {
		if err := vault.CheckVariable(name); err != nil {
			return &spec.Error{Class: spec.ErrUsage, Op: "server", Err: err}
		}
	}
	if len(s.Key) == 0 {
		return spec.Errorf(spec.ErrUsage, "server: key is missing: the variables that hold what the agent logs in with there")
	}
	if err := s.Place.Check(); err != nil || s.Place.Kind == spec.PlaceAgent {
		return spec.Errorf(spec.ErrUsage, "server: %q is no place in a request", s.Place.Kind)
	}
	if err := checkEnv("server", s.Env); err != nil {
		return err
	}
	return checkEnv("server: model", s.Model)
}
