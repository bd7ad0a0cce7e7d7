package cli

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// serverFlags name a model server of the user's own, for a new sandbox.
type serverFlags struct {
	url, key, model string
	chosen          *spec.ModelServer // with the settings applied; nil: the agent's maker is asked
}

// noServer is the word for the agent's maker, overriding the settings.
const noServer = "none"

func (f *serverFlags) add(a *app, c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.url, "model-server", "", "have the agent ask this server instead of its maker's: URL, e.g. http://localhost:11434; none: not even that of the settings")
	fs.StringVar(&f.key, "model-key", "", "the secret that is lent for it")
	fs.StringVar(&f.model, "server-model", "", "what the server calls the model that is asked")
	completeFlag(c, "model-key", a.secretNames)
}

// modelServer returns the server that the agent of a new sandbox asks, by the flags or else by the
// settings. It is nil for the agent's maker.
func (a *app) modelServer(e *engine.Engine, f *createFlags, of *spec.Agent) (*spec.ModelServer, error) {
	s := &f.server
	var err error
	switch {
	case s.url == noServer && s.key+s.model != "":
		return nil, spec.Errorf(spec.ErrUsage, "--model-server none goes with neither --model-key nor --server-model")
	case s.url == noServer:
		s.chosen = nil
	case s.url != "":
		s.chosen, err = spec.NewModelServer(s.url, s.key, s.model)
	case f.mock == "" && of != nil: // a shell asks no model by itself
		s.chosen, err = a.settings.ModelServer()
		if err == nil && s.chosen != nil {
			s.chosen, err = spec.NewModelServer(s.chosen.URL, cmp.Or(s.key, s.chosen.Key), cmp.Or(s.model, s.chosen.Model))
		}
	}
	switch {
	case err != nil:
		return nil, err
	case s.chosen == nil && s.key+s.model != "":
		return nil, spec.Errorf(spec.ErrUsage, "--model-key and --server-model are for a model server").WithHint("name it: --model-server URL")
	case s.chosen != nil && f.mock != "":
		return nil, spec.Errorf(spec.ErrUsage, "--mock and --model-server exclude each other: a script answers, or a server")
	}
	if s.chosen != nil && s.chosen.Key != "" {
		if _, err := e.Credentials().Values.Secret(s.chosen.Key); err != nil {
			return nil, err
		}
	}
	return s.chosen, agent.ForServer(of, s.chosen)
}

// answerTime is how long a server on this machine may take to accept a connection.
const answerTime = time.Second

// tellServer prints the server's address for a new sandbox in which nothing is configured to use it.
// It also prints a note if the server does not answer: an agent would retry without an error.
func (a *app) tellServer(ctx context.Context, of *spec.Agent, sb *spec.Sandbox) {
	s := sb.ModelServer
	if s == nil {
		return
	}
	if of == nil {
		a.Note("inside, the model server is %s", s.Inside())
	}
	if !s.IsLocal() {
		return
	}
	dialer := net.Dialer{Timeout: answerTime}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("localhost", strconv.Itoa(int(s.Port()))))
	if err != nil {
		a.Note("the model server %s does not answer (%v): is it running?", s.URL, err)
		return
	}
	_ = conn.Close()
}

// askedPorts returns the host ports that the user requested, without the one implied by a model
// server.
func askedPorts(wish *spec.Sandbox) []uint16 {
	s := wish.ModelServer
	return slices.DeleteFunc(slices.Clone(wish.HostPorts), func(p uint16) bool { return s != nil && s.IsLocal() && p == s.Port() })
}

// sameServer reports whether two sandboxes ask the same server.
func sameServer(sb, wish *spec.Sandbox) bool {
	a, b := sb.ModelServer, wish.ModelServer
	return a == b || a != nil && b != nil && *a == *b
}

// warnLocalhost warns about variables that name a server at localhost, which inside is the sandbox
// itself. It also warns about variables that an agent does not read, and prints the command that
// works.
func (a *app) warnLocalhost(e *engine.Engine, name string, env, paths []string) {
	of, _ := e.Agents.Find(name)
	for _, kv := range env {
		variable, value, _ := strings.Cut(kv, "=")
		host, port, root, ok := spec.ServerOf(value)
		if !ok || !engine.NamesServer(variable) {
			continue
		}
		at := net.JoinHostPort(host, port)
		command := "bothy run --model-server " + root + " " + strings.Join(append([]string{name}, paths...), " ")
		switch {
		case spec.IsLoopback(host):
			a.Note("%s names %s, which inside is the sandbox itself; a server of this machine is asked with: %s", console.Printable(variable), console.Printable(at), console.Printable(command))
		case of != nil && of.Server != nil && slices.Contains(of.Server.Ignored, variable):
			a.Note("%s does not read %s; to have it ask that server: %s", of.Title, console.Printable(variable), console.Printable(command))
		}
	}
}
