package provision

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/spec"
)

// NoServer is the word for the agent's maker in place of a model server of the settings.
const NoServer = "none"

// namesServer reports whether a request says something about a model server.
func namesServer(req *spec.Request) bool { return req.ModelServer+req.ModelKey+req.ServerModel != "" }

// decideServer chooses the model server for a sandbox that is made, or for which the request names one.
func (p *Provisioner) decideServer(pl *Plan) (err error) {
	if pl.Agent.Spec != nil { // an existing sandbox has its program and its server
		if err := p.lookForExisting(pl); err != nil {
			return err
		}
	}
	if pl.makesSandbox() || namesServer(&pl.Request) {
		pl.server, err = p.modelServer(&pl.Request, pl.Agent.Spec)
	}
	return err
}

// modelServer returns the server that the agent of a new sandbox asks: that of the request, or else that
// of the settings. It is nil for the agent's maker.
func (p *Provisioner) modelServer(req *spec.Request, of *spec.Agent) (s *spec.ModelServer, err error) {
	switch {
	case req.ModelServer == NoServer && req.ModelKey+req.ServerModel != "":
		return nil, spec.Errorf(spec.ErrUsage, "%s %s goes with neither %s nor %s", spec.Option("model-server"), NoServer, spec.Option("model-key"), spec.Option("server-model"))
	case req.ModelServer == NoServer:
	case req.ModelServer != "":
		s, err = spec.NewModelServer(req.ModelServer, req.ModelKey, req.ServerModel)
	case req.Mock == "" && of != nil: // a shell asks no model by itself
		s, err = p.Settings.ModelServer()
		if err == nil && s != nil {
			s, err = spec.NewModelServer(s.URL, cmp.Or(req.ModelKey, s.Key), cmp.Or(req.ServerModel, s.Model))
		}
	}
	switch {
	case err != nil:
		return nil, err
	case s == nil && req.ModelKey+req.ServerModel != "":
		return nil, spec.Errorf(spec.ErrUsage, "%s and %s are for a model server", spec.Option("model-key"), spec.Option("server-model")).
			WithHint("name it: %s URL", spec.Option("model-server"))
	case s != nil && req.Mock != "":
		return nil, spec.Errorf(spec.ErrUsage, "%s and %s exclude each other: a script answers, or a server", spec.Option("mock"), spec.Option("model-server"))
	}
	if s != nil && s.Key != "" {
		if _, err := p.Engine.Credentials().Values.Secret(s.Key); err != nil {
			return nil, err
		}
	}
	return s, agent.ForServer(of, s)
}

// answerTime is how long a server on this machine may take to accept a connection.
const answerTime = time.Second

// serverNotes gives the server's address for a new sandbox in which no agent is configured to use it. It
// also says if the server does not answer: an agent would retry without an error.
func serverNotes(ctx context.Context, of *spec.Agent, sb *spec.Sandbox) (notes []string) {
	s := sb.ModelServer
	if s == nil {
		return nil
	}
	if of == nil {
		notes = append(notes, "inside, the model server is "+s.Inside())
	}
	if !s.IsLocal() {
		return notes
	}
	dialer := net.Dialer{Timeout: answerTime}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("localhost", strconv.Itoa(int(s.Port()))))
	if err != nil {
		return append(notes, fmt.Sprintf("the model server %s does not answer (%v): is it running?", s.URL, err))
	}
	_ = conn.Close()
	return notes
}

// localhostNotes warns about variables that name a server at localhost, which inside is the sandbox
// itself. It also warns about variables that an agent does not read, and gives the command that works.
func (p *Provisioner) localhostNotes(pl *Plan) (notes []string) {
	of := pl.Agent.Spec
	for _, kv := range pl.Request.Env {
		variable, value, _ := strings.Cut(kv, "=")
		host, port, root, ok := spec.ServerOf(value)
		if !ok || !netrules.NamesServer(variable) {
			continue
		}
		at := net.JoinHostPort(host, port)
		command := "bothy run --model-server " + root + " " + strings.Join(append([]string{pl.Agent.Name}, pl.Request.Workspaces...), " ")
		switch {
		case spec.IsLoopback(host):
			notes = append(notes, fmt.Sprintf("%s names %s, which inside is the sandbox itself; a server of this machine is asked with: %s", variable, at, command))
		case of != nil && of.Server != nil && slices.Contains(of.Server.Ignored, variable):
			notes = append(notes, fmt.Sprintf("%s does not read %s; to have it ask that server: %s", of.Title, variable, command))
		}
	}
	return notes
}
