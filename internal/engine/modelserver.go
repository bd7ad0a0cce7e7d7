package engine

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Serve makes a new sandbox use the user's own model server. If it is on the host, the sandbox reaches
// its port; otherwise a rule allows it.
func Serve(sb *spec.Sandbox, a *spec.Agent, s *spec.ModelServer, rules *policy.Block) error {
	if s == nil {
		return nil
	}
	sb.ModelServer = s
	if a != nil {
		sb.Env = slices.Concat(agent.ServerEnv(a, s), sb.Env)
	}
	if s.IsLocal() {
		if slices.Contains(sb.HostPorts, s.Port()) {
			return nil
		}
		return OpenHostPort(sb, s.Port())
	}
	r, err := policy.ParseRule(policy.Allow, s.Target())
	if err != nil {
		return err
	}
	if !policy.HasRule(rules.Allow, &r) {
		rules.Allow = append(slices.Clip(rules.Allow), r)
	}
	return nil
}

// serversOf returns the model servers that a sandbox is pointed to, as HOST:PORT: the server that it was
// made for, and those that variables name.
func serversOf(sb *spec.Sandbox) (list []string) {
	if sb.ModelServer != nil {
		list = append(list, sb.ModelServer.At())
	}
	for _, kv := range sb.Env {
		name, value, _ := strings.Cut(kv, "=")
		if at := pointsTo(name, value); at != "" && !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// pointsTo returns the server that a variable names, if the variable tells agents of a server.
func pointsTo(variable, value string) string {
	if !NamesServer(variable) {
		return ""
	}
	host, port, _, ok := spec.ServerOf(value)
	if !ok {
		return ""
	}
	switch a, err := netip.ParseAddr(host); {
	case host == "host.docker.internal" || host == spec.HostName:
		host = spec.HostName
	case err == nil:
		host = a.Unmap().String()
	default:
		if host, err = hostname.Clean(host); err != nil {
			return ""
		}
	}
	return net.JoinHostPort(host, port)
}

// NamesServer reports whether a variable tells agents which server to ask.
func NamesServer(variable string) bool {
	return strings.HasSuffix(variable, "_BASE_URL") || strings.HasSuffix(variable, "_API_BASE")
}

// ownServer describes a sandbox's model server for the gateway.
func ownServer(sb *spec.Sandbox) *wire.ModelServer {
	s := sb.ModelServer
	if s == nil {
		return nil
	}
	own := &wire.ModelServer{At: s.At()}
	if s.IsLocal() {
		own.Named = s.Named()
	}
	return own
}
