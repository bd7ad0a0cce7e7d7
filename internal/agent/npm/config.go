package npm

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// DefaultRegistry is used if the host's configuration names no other.
const DefaultRegistry = "https://registry.npmjs.org/"

// npmjs is the host in the addresses of packages, even if a mirror delivers them.
const npmjs = "registry.npmjs.org"

// Config is the host's npm configuration of registries.
type Config struct {
	// Notices tell the user which settings are not honoured.
	Notices []string

	settings settings
	environ  []string
}

// LoadConfig reads the configuration of the calling user.
func LoadConfig(environ []string) (*Config, error) {
	s, err := loadSettings(environ)
	if err != nil {
		return nil, &spec.Error{Op: "read npm's configuration", Err: err}
	}
	c := &Config{settings: s, environ: environ}
	if v := s["strict-ssl"]; v == "false" {
		c.notice("npm's setting strict-ssl=false is not honoured: certificates are checked (cafile names further authorities)")
	}
	for key, value := range s {
		switch name := key[strings.LastIndexByte(key, ':')+1:]; {
		case name == "certfile", name == "cert":
			c.notice("npm's setting %s is not honoured: no client certificates are used", key)
		case strings.HasPrefix(name, "_") && strings.Contains(value, "${"):
			c.notice("npm's setting %s is not used: a variable in it is not set", key)
			delete(s, key)
		}
	}
	slices.Sort(c.Notices)
	return c, nil
}

func (c *Config) notice(format string, args ...any) {
	c.Notices = append(c.Notices, fmt.Sprintf(format, args...))
}

func (c *Config) lookupEnv(names ...string) string {
	for _, name := range names {
		for _, kv := range c.environ {
			if v, ok := strings.CutPrefix(kv, name+"="); ok && v != "" {
				return v
			}
		}
	}
	return ""
}

// registry returns the address of the registry for a package, with a trailing slash.
func (c *Config) registry(pkg string) (*url.URL, error) {
	key := "registry"
	if scope, _, ok := strings.Cut(pkg, "/"); ok && c.settings[scope+":registry"] != "" {
		key = scope + ":registry"
	}
	u, err := url.Parse(cmp.Or(c.settings[key], DefaultRegistry))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, spec.Errorf(spec.ErrUsage, "npm's setting %s is not the address of a registry", key)
	}
	u.User, u.RawQuery, u.Fragment = nil, "", "" // credentials have their own settings
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/")+"/", ""
	return u, nil
}

// authorization returns the Authorization header for an address, empty for most. It uses the credential
// configured for the address, for a parent path, or for a registry on its host. It is never sent without
// TLS unless the registry is configured so.
func (c *Config) authorization(u *url.URL) string {
	if u.Scheme != "https" && !c.allowsPlain(u.Host) {
		return ""
	}
	key := "//" + u.Host + u.EscapedPath()
	for len(key) > len("//") {
		if h := c.credential(key); h != "" {
			return h
		}
		if strings.HasSuffix(key, "/") {
			key = key[:len(key)-1]
		} else {
			key = key[:strings.LastIndexByte(key, '/')+1]
		}
	}
	for _, r := range c.registries() {
		if r.Host == u.Host && r.Scheme == u.Scheme {
			if h := c.credential("//" + r.Host + r.Path); h != "" {
				return h
			}
		}
	}
	return ""
}

func (c *Config) registries() (list []*url.URL) {
	pkgs := []string{""}
	for key := range c.settings {
		if scope, ok := strings.CutSuffix(key, ":registry"); ok && strings.HasPrefix(scope, "@") {
			pkgs = append(pkgs, scope+"/x")
		}
	}
	slices.Sort(pkgs)
	for _, pkg := range pkgs {
		if u, err := c.registry(pkg); err == nil {
			list = append(list, u)
		}
	}
	return list
}

// allowsPlain reports whether a registry without TLS is configured on a host.
func (c *Config) allowsPlain(host string) bool {
	return slices.ContainsFunc(c.registries(), func(r *url.URL) bool { return r.Host == host && r.Scheme == "http" })
}

func (c *Config) credential(key string) string {
	get := func(name string) string { return c.settings[key+":"+name] }
	if token := get("_authToken"); token != "" {
		return "Bearer " + token
	}
	if auth := get("_auth"); auth != "" {
		return "Basic " + auth
	}
	if user, sealed := get("username"), get("_password"); user != "" && sealed != "" {
		if password, err := base64.StdEncoding.DecodeString(sealed); err == nil {
			return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+string(password)))
		}
	}
	return ""
}

// setting returns a setting, and "" if its value is written as none.
func (c *Config) setting(key string) string {
	if v := c.settings[key]; v != "null" && v != "false" && v != "undefined" {
		return v
	}
	return ""
}

const maxAuthorities = 16 << 20

// authorities returns the trusted authorities: as with npm, those of its settings replace
// the host's. $NODE_EXTRA_CA_CERTS adds to either.
func (c *Config) authorities() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	file, text := c.setting("cafile"), c.setting("ca")
	if file == "" && text == "" {
		var err error
		if pool, err = x509.SystemCertPool(); err != nil {
			return nil, &spec.Error{Op: "read the host's certificate authorities", Err: err}
		}
	}
	// In npm's files a line break within a value is written \n.
	if text != "" && !pool.AppendCertsFromPEM([]byte(strings.ReplaceAll(text, `\n`, "\n"))) {
		return nil, spec.Errorf(spec.ErrUsage, "npm's setting ca has no certificate")
	}
	for name, path := range map[string]string{"npm's setting cafile": file, "NODE_EXTRA_CA_CERTS": c.lookupEnv("NODE_EXTRA_CA_CERTS")} {
		if path == "" {
			continue
		}
		pem, err := store.ReadFile(c.fromHome(path), 0, maxAuthorities)
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s has no certificate", path)
		}
		if err != nil {
			return nil, &spec.Error{Class: spec.ErrUsage, Op: "read the authorities of " + name, Err: err}
		}
	}
	return pool, nil
}

func (c *Config) fromHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(c.lookupEnv("HOME"), rest)
	}
	return path
}
