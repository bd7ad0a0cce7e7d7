package agent

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Conditions that replace services in a file's list of lent credentials: the sandbox uses the user's own
// model server, and the server's name for its model is known.
const (
	LentServer = "model-server"
	LentModel  = "model-server-model"
)

// Words for the model server in an agent's settings.
const (
	WordServer    = "server"    // its root
	WordVersioned = "server-v1" // the same, with the version
	WordModel     = "server-model"
)

// noKey is the agent's key if the server requires none: most agents require some text.
const noKey = "none"

// ServerWord returns the value of such a word; ok is false for other words.
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

// ServerEnv returns the variables that point an agent to the user's own model server.
func ServerEnv(a *spec.Agent, s *spec.ModelServer) (env []string) {
	if a.Server == nil || s == nil {
		return nil
	}
	words := strings.NewReplacer("{"+WordServer+"}", s.Inside(), "{"+WordVersioned+"}", s.Versioned(), "{"+WordModel+"}", s.Model)
	env = environ(a.Server.Env, words.Replace)
	if s.Model != "" {
		env = append(env, environ(a.Server.Model, words.Replace)...)
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
		return spec.Errorf(spec.ErrUsage, "server: key is missing: the variables with the agent's credential for the server")
	}
	if err := s.Place.Check(); err != nil || s.Place.Kind == spec.PlaceAgent {
		return spec.Errorf(spec.ErrUsage, "server: %q is not a place in a request", s.Place.Kind)
	}
	if err := checkEnv("server", s.Env); err != nil {
		return err
	}
	return checkEnv("server: model", s.Model)
}

// ForServer rejects an agent that cannot be configured for its user's own model server. nil means a shell
// or any other program, for which Bothy configures nothing.
func ForServer(a *spec.Agent, s *spec.ModelServer) error {
	switch {
	case a == nil || s == nil:
		return nil
	case a.Server == nil:
		return spec.Errorf(spec.ErrUsage, "%s: the description of %s does not say how to configure a model server", spec.Option("model-server"), a.Title).
			WithHint("add server to its description (docs/guide/models.md), or use %s none to ask its maker", spec.Option("model-server"))
	case a.Server.NeedsModel && s.Model == "":
		return spec.Errorf(spec.ErrUsage, "%s: %s asks a server of one's own for no model by itself", spec.Option("model-server"), a.Title).
			WithHint("name one as the server calls it: %s NAME", spec.Option("server-model"))
	}
	return nil
}
