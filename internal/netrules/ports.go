package netrules

import (
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// maxPorts bounds the published ports of a sandbox, and the host's ports that are open to it.
const maxPorts = 64

// Publish adds a port to the published ports of a sandbox.
func Publish(sb *spec.Sandbox, p spec.Port) error {
	for _, q := range sb.Ports {
		if p == q {
			return nil
		}
		if p.HostPort != 0 && p.HostPort == q.HostPort && overlap(p, q) {
			return spec.Errorf(spec.ErrUsage, "port %d of the host is for port %d inside already, it cannot be for %d too", p.HostPort, q.Port, p.Port)
		}
	}
	if len(sb.Ports) >= maxPorts {
		return spec.Errorf(spec.ErrUsage, "at most %d ports can be published", maxPorts)
	}
	sb.Ports = append(sb.Ports, p)
	return nil
}

// overlap reports whether two ports may need the same address of the host.
func overlap(p, q spec.Port) bool {
	covers := func(p, q spec.Port) bool {
		switch {
		case p.HostIP == q.HostIP:
			return true
		case !p.HostIP.IsValid():
			return q.HostIP.String() == "127.0.0.1" || q.HostIP.String() == "::1"
		}
		return p.HostIP.IsUnspecified() && (!q.HostIP.IsValid() || q.HostIP.Is4() == p.HostIP.Is4())
	}
	return covers(p, q) || covers(q, p)
}

// Unpublish removes the ports that p means, either as they were asked for or as they are published.
func Unpublish(sb *spec.Sandbox, p spec.Port, at []spec.Port) error {
	n := len(sb.Ports)
	wishes := slices.Clone(sb.Ports)
	sb.Ports = slices.DeleteFunc(sb.Ports, func(q spec.Port) bool {
		return p.Covers(q) || slices.ContainsFunc(at, func(a spec.Port) bool {
			return p.Covers(a) && answers(q, a, wishes)
		})
	})
	if len(sb.Ports) == n {
		return spec.Errorf(spec.ErrNotFound, "sandbox %s publishes nothing as %s", sb.Name, p).
			WithHint("bothy ports %s lists its ports", sb.Name)
	}
	return nil
}

// answers reports whether a published port exists because of a wish. A wish without a port of the
// host answers for the ports that no other wish names.
func answers(wish, at spec.Port, wishes []spec.Port) bool {
	if !wish.Covers(at) || !wish.HostIP.IsValid() && !at.HostIP.IsLoopback() {
		return false
	}
	named := func(w spec.Port) bool { return w.HostPort == at.HostPort && w.Covers(at) }
	return wish.HostPort != 0 || !slices.ContainsFunc(wishes, named)
}

// OpenHostPort lets a sandbox reach a port of the host's loopback.
func OpenHostPort(sb *spec.Sandbox, port uint16) error {
	if slices.Contains(sb.HostPorts, port) {
		return nil
	}
	if len(sb.HostPorts) >= maxPorts {
		return spec.Errorf(spec.ErrUsage, "at most %d ports of the host can be open", maxPorts)
	}
	sb.HostPorts = append(sb.HostPorts, port)
	return nil
}

// CloseHostPort closes a port of the host to a sandbox again.
func CloseHostPort(sb *spec.Sandbox, port uint16) error {
	i := slices.Index(sb.HostPorts, port)
	if i < 0 {
		return spec.Errorf(spec.ErrNotFound, "port %d of the host is not open to sandbox %s", port, sb.Name)
	}
	sb.HostPorts = slices.Delete(sb.HostPorts, i, i+1)
	return nil
}
