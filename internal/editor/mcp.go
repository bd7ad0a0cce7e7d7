package editor

import (
	"context"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/acp"
	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/spec"
)

// checkTime bounds the search for a program inside.
const checkTime = 20 * time.Second

// CheckServer implements [acp.Host].
func (d *Door) CheckServer(ctx context.Context, m acp.MCPServer) error {
	var err error
	switch m.Type {
	case "":
		err = d.checkProgram(ctx, m)
	case "http", "sse":
		err = d.checkURL(m)
	default:
		err = spec.Errorf(spec.ErrUsage, "it is of the type %q, which would be served by the editor itself", m.Type)
	}
	if err == nil {
		return nil
	}
	hint := spec.Hint(err)
	if hint != "" {
		hint += "; "
	}
	return (&spec.Error{Op: "MCP server " + strconv.Quote(m.Name), Err: err}).
		WithHint("%sto go on without such servers: bothy acp --skip-mcp %s", hint, d.place.Agent.Name)
}

// checkProgram checks a server that the agent starts.
func (d *Door) checkProgram(ctx context.Context, m acp.MCPServer) error {
	if len(m.Env) > 0 && !d.PassSecrets {
		return secret("it gets variables (%s), which may be secrets", strings.Join(m.Env, ", "))
	}
	if !agent.Harmless(slices.Concat([]string{m.Command}, m.Args)) && !d.PassSecrets {
		return secret("its arguments may hold a secret")
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if m.Command == "" {
		return spec.Errorf(spec.ErrUsage, "it has no command")
	}
	found, err := whereInside(ctx, &d.place, m.Command)
	if err == nil && found == "" {
		err = spec.Errorf(spec.ErrNotFound, "its program %s is not in the sandbox", m.Command).
			WithHint("install it there: bothy exec -it %s sh", d.place.Sandbox.Name)
	}
	return err
}

// secret returns the error for a server that would bring a secret into the sandbox.
func secret(format string, args ...any) error {
	return spec.Errorf(spec.ErrDenied, format, args...).
		WithHint("to let them into the sandbox nevertheless: bothy acp --pass-mcp-secrets")
}

// checkURL checks a server that the agent reaches over the network.
func (d *Door) checkURL(m acp.MCPServer) error {
	if len(m.Headers) > 0 && !d.PassSecrets {
		return secret("it gets headers (%s), which may be secrets", strings.Join(m.Headers, ", "))
	}
	u, err := url.Parse(m.URL)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return spec.Errorf(spec.ErrUsage, "%q is not the URL of a server", m.URL)
	}
	if (u.User != nil || u.RawQuery != "") && !d.PassSecrets {
		return secret("its URL may hold a secret")
	}
	port, err := portOf(u)
	if err != nil {
		return err
	}
	sb := d.place.Sandbox
	if spec.IsLoopback(u.Hostname()) {
		return spec.Errorf(spec.ErrUsage, "%s is inside the sandbox itself", u.Host).
			WithHint("for a server of this machine: bothy ports %s --allow-host-port %d, and http://host.bothy:%d%s in the editor", sb.Name, port, port, path.Join("/", u.Path))
	}
	q := policy.Query{Stage: policy.StageConnect, Port: port, Now: time.Now()}
	if q.Addr, err = netip.ParseAddr(u.Hostname()); err != nil {
		if q.Name, err = hostname.Clean(u.Hostname()); err != nil {
			return spec.Errorf(spec.ErrUsage, "%q is not the name of a server", u.Hostname())
		}
	}
	p, err := d.place.Engine.Rules().Policy(sb)
	if err != nil {
		return err
	}
	isHost := spec.IsHostName(q.Name) // no rule is about it
	if d := p.Decide(q); !isHost && !d.Allowed() {
		return spec.Errorf(spec.ErrDenied, "the network policy keeps %s from %s", sb.Name, u.Host).
			WithHint("allow it: bothy policy allow %s:%d --sandbox %s", u.Hostname(), port, sb.Name)
	}
	if isHost && !slices.Contains(sb.HostPorts, port) {
		return spec.Errorf(spec.ErrDenied, "%s does not reach port %d of this machine", sb.Name, port).
			WithHint("bothy ports %s --allow-host-port %d", sb.Name, port)
	}
	return nil
}

// portOf returns the port of a server's URL.
func portOf(u *url.URL) (uint16, error) {
	text := u.Port()
	if text == "" {
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, spec.Errorf(spec.ErrUsage, "%q is not a port", text)
	}
	return uint16(n), nil
}
