package netrules

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/spec"
)

// HostAnswer tells whether a sandbox reaches a name that no rule is about, because no connection to it
// leaves this machine.
type HostAnswer struct {
	Allowed bool
	Lines   []string // the answer, the reason, and how to change it
}

// AnswerHost answers for a HOST[:PORT] or a URL, in one sandbox or, without one, in any. It returns nil for
// a name that rules are about.
func AnswerHost(sb *spec.Sandbox, asked string) *HostAnswer {
	host, port := splitHost(asked)
	name, err := hostname.Clean(host)
	if err != nil || !hostname.IsUnroutable(name) {
		return nil
	}
	isHost := spec.IsHostName(name)
	if !isHost && name != "localhost" && !hostname.IsBelow(name, "localhost") {
		return nil
	}
	sandbox, number := "SANDBOX", "PORT"
	if sb != nil {
		sandbox = sb.Name
	}
	if port != 0 {
		number = strconv.Itoa(int(port))
	}
	opens := fmt.Sprintf("bothy ports %s --allow-host-port %s", sandbox, number)
	switch {
	case !isHost:
		return refuseHost(asked, "inside, "+name+" is the sandbox itself: no connection to it leaves the sandbox",
			"a port of the host is reached as "+spec.HostName+", after: "+opens)
	case sb == nil:
		return refuseHost(asked, "a port of the host is open to single sandboxes: to check one, --sandbox NAME", "to open it: "+opens)
	case port == 0 && len(sb.HostPorts) > 0:
		return &HostAnswer{true, []string{asked + ": allow", "open ports of the host: " + strings.Trim(fmt.Sprint(sb.HostPorts), "[]")}}
	case slices.Contains(sb.HostPorts, port):
		return &HostAnswer{true, []string{asked + ": allow", fmt.Sprintf("port %d of the host is open to sandbox %s", port, sb.Name)}}
	case port == 0:
		return refuseHost(asked, "no port of the host is open to sandbox "+sb.Name, "to open one: "+opens)
	}
	return refuseHost(asked, fmt.Sprintf("port %d of the host is not open to sandbox %s", port, sb.Name), "to open it: "+opens)
}

func refuseHost(asked string, lines ...string) *HostAnswer {
	return &HostAnswer{false, append([]string{asked + ": deny"}, lines...)}
}

// splitHost returns the host and the port of a HOST[:PORT] or a URL. The port is 0 if none is given.
func splitHost(asked string) (host string, port uint16) {
	if strings.Contains(asked, "://") {
		u, err := url.Parse(asked)
		if err != nil {
			return "", 0
		}
		asked = u.Host
		if u.Port() == "" && (u.Scheme == "http" || u.Scheme == "https") {
			asked = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		}
	}
	host, text, err := net.SplitHostPort(asked)
	if err != nil {
		return asked, 0
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0
	}
	return host, uint16(n)
}
