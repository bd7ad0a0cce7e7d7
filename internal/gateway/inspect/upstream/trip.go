package upstream

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
)

// Host is the server that a connection is for.
type Host struct {
	Name string     // empty for a literal address
	Addr netip.Addr // the literal address
	Port uint16
	TLS  bool
}

// String returns the host with its port, as in a URL.
func (h Host) String() string { return net.JoinHostPort(h.Hostname(), strconv.Itoa(int(h.Port))) }

// Hostname returns the name or the address.
func (h Host) Hostname() string {
	if h.Name != "" {
		return h.Name
	}
	return h.Addr.String()
}

// Trip describes a request on its way to its server: the memory and the budget that it uses, and its
// watcher.
type Trip struct {
	Hold    *held.Hold         // bytes, until the request is over
	Window  *held.Hold         // of its answer, if that is wide
	Outflow *uploadlimit.Meter // counts the sent bytes; nil: they are not counted
	Watcher Watcher            // nil: nothing is told
}

// Watcher is told how a request gets on.
type Watcher interface {
	// Reached is called with the address of the server's connection before the request is sent over
	// it.
	Reached(netip.Addr)
	// Interim passes on an answer that comes before the final one. After an error nothing more is
	// read.
	Interim(status int, header http.Header) error
}

func (t *Trip) reached(a netip.Addr) {
	if t.Watcher != nil {
		t.Watcher.Reached(a)
	}
}

func (t *Trip) interim(status int, header http.Header) error {
	if t.Watcher == nil {
		return nil
	}
	return t.Watcher.Interim(status, header)
}
