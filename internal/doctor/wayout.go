package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/hostproxy"
	"github.com/bothy-dev/bothy/spec"
)

// WayOut reports how this host's programs reach servers, according to an environment: directly, or
// through proxies, each of which it connects to. It does not show a password.
func WayOut(ctx context.Context, environ []string) Check {
	c := Check{Name: "way out", Result: OK, Detail: "directly: no proxy is named in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY"}
	list, err := hostproxy.Read(environ).All()
	if err != nil {
		c.Result, c.Detail, c.Fix = Warn, err.Error(), spec.Hint(err)
		return c
	}
	var said []string
	for _, p := range list {
		text := fmt.Sprintf("by the proxy %s (%s", p, p.From())
		if _, _, ok := p.Login(); ok {
			text += ", with a password"
		}
		text += ")"
		if err := dialProxy(ctx, p); err != nil {
			c.Result, text = Warn, text+", which does not answer: "+err.Error()
			c.Fix = "start the proxy, or correct " + p.From() + "; a sandbox keeps what its start found there"
		}
		said = append(said, text)
	}
	if len(said) > 0 {
		c.Detail = strings.Join(said, "; ")
	}
	return c
}

func dialProxy(ctx context.Context, p *hostproxy.Proxy) error {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	return connect(ctx, nil, p.Address())
}
