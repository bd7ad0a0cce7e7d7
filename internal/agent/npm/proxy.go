package npm

import (
	"cmp"
	"strings"

	"github.com/bothy-dev/bothy/internal/hostproxy"
	"github.com/bothy-dev/bothy/internal/npmrc"
)

// proxies returns the proxies for registries: those of npm's configuration, or else those of the
// environment.
func (c *Config) proxies() *hostproxy.Settings {
	own := cmp.Or(c.setting("https-proxy"), c.setting("proxy"))
	except := strings.ReplaceAll(cmp.Or(c.setting("noproxy"), c.lookupEnv("NO_PROXY", "no_proxy")), npmrc.ListSeparator, ",")
	return hostproxy.New("the configured proxy",
		cmp.Or(own, c.lookupEnv("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")),
		cmp.Or(own, c.lookupEnv("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")), except)
}
