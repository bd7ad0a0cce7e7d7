package doctor

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// reachTime is how long a host may take to answer.
const reachTime = 5 * time.Second

// Hosts tells which of these, as HOST:PORT, this host can connect to. Nothing is
// sent.
func Hosts(ctx context.Context, hosts []string) []Check {
	checks := make([]Check, len(hosts))
	var wg sync.WaitGroup
	for i, at := range hosts {
		wg.Go(func() { checks[i] = reach(ctx, at) })
	}
	wg.Wait()
	return checks
}

func reach(ctx context.Context, at string) Check {
	c := Check{Name: "host " + at, Result: OK, Detail: "it can be reached"}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err == nil {
		_ = conn.Close()
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
