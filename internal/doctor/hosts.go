package doctor

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/hostproxy"
)

// reachTime is how long a host may take to answer.
const reachTime = 5 * time.Second

// Hosts reports which of these hosts, as HOST:PORT, this host can connect to. It sends nothing. If the
// environment names a proxy, it asks the proxy for them. If the proxy requires TLS, Hosts only reports
// that.
func Hosts(ctx context.Context, environ, hosts []string) []Check {
	proxies := hostproxy.Read(environ)
	checks := make([]Check, len(hosts))
	var wg sync.WaitGroup
	for i, at := range hosts {
		wg.Go(func() { checks[i] = reachHost(ctx, proxies, at) })
	}
	wg.Wait()
	return checks
}

func reachHost(ctx context.Context, proxies *hostproxy.Settings, at string) Check {
	c := Check{Name: "host " + at, Result: OK, Detail: "it can be reached"}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	proxy, err := proxyFor(proxies, at)
	if err == nil && proxy != nil && proxy.TLS {
		c.Detail = "not tried: only the proxy " + proxy.String() + " connects to it"
		return c
	}
	if err == nil {
		err = connect(ctx, proxy, at)
	}
	if err == nil {
		return c
	}
	c.Result, c.Detail = Warn, err.Error()
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		c.Fix = "its name is not known here: is there a network, and a resolver in /etc/resolv.conf?"
	} else {
		c.Fix = "sandboxes connect as this host does: a firewall or a proxy that is needed here is in their way too"
	}
	return c
}

func proxyFor(s *hostproxy.Settings, at string) (*hostproxy.Proxy, error) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	return s.For(host, uint16(n))
}

// connect connects to a host, through a proxy if there is one.
func connect(ctx context.Context, proxy *hostproxy.Proxy, at string) error {
	to := at
	if proxy != nil {
		to = proxy.Address()
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return err
	}
	defer conn.Close()
	if proxy != nil {
		return proxy.Connect(ctx, conn, at)
	}
	return nil
}
