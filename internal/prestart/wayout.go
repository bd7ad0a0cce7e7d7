package prestart

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/bothy-dev/bothy/internal/hostproxy"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/trust"
	"github.com/bothy-dev/bothy/spec"
)

// addWayOut tells the keeper how the caller's programs reach servers: by which proxies, and whose
// certificates they trust. Each start goes by its own environment: none of this is stored.
func (p Preparation) addWayOut(sb *spec.Sandbox, l *launch.Settings) {
	l.Proxies = hostproxy.Environment(os.Environ())
	if _, err := hostproxy.Read(l.Proxies).All(); err != nil {
		p.Keepers.Say("sandbox %s starts, and what needs that proxy fails: %v; %s", sb.Name, err, spec.Hint(err))
	}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v := os.Getenv(name); v != "" {
			if l.Roots == nil {
				l.Roots = map[string]string{}
			}
			l.Roots[name] = absolute(v)
		}
	}
	l.Authorities = p.authorities(sb, "NODE_EXTRA_CA_CERTS")
	named := l.Authorities
	if file := l.Roots["SSL_CERT_FILE"]; file != "" && !trust.IsBundle("", file) {
		named = slices.Concat(named, p.authorities(sb, "SSL_CERT_FILE"))
	}
	l.LocalAuthorities = trust.Local("", named)
}

// authorities reads the certificates of the file that a variable names.
func (p Preparation) authorities(sb *spec.Sandbox, variable string) []byte {
	file := absolute(os.Getenv(variable))
	if file == "" {
		return nil
	}
	text, err := readAuthorities(file)
	if err != nil {
		p.Keepers.Say("sandbox %s starts without the authorities of %s: %v", sb.Name, variable, err)
	}
	return text
}

// absolute makes a path absolute, because the keeper runs in another directory.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); path != "" && err == nil {
		return abs
	}
	return path
}

// maxAuthorities bounds a file of certificates, in bytes.
const maxAuthorities = 8 << 20

// readAuthorities reads the certificates of a file that are not in the host's bundle.
func readAuthorities(file string) ([]byte, error) {
	text, err := store.ReadFile(file, 0, maxAuthorities)
	if err != nil {
		return nil, err
	}
	if text = trust.Beyond("", text); len(text) > trust.MaxLocal {
		return nil, fmt.Errorf("%s has %d KiB of them: there is room for %d", file, len(text)>>10, trust.MaxLocal>>10)
	}
	return text, nil
}
