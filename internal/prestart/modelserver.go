package prestart

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

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
	if !netrules.NamesServer(variable) {
		return ""
	}
	host, port, _, ok := spec.ServerOf(value)
	if !ok {
		return ""
	}
	switch a, err := netip.ParseAddr(host); {
	case spec.IsHostName(host):
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
