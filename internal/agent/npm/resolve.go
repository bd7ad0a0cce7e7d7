package npm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/spec"
)

// Release is a version of a package.
type Release struct {
	Package, Version string

	registry *url.URL
	document versionDocument
}

// Tarball is a tarball to fetch.
type Tarball struct {
	Release
	URL       *url.URL
	Integrity Integrity
}

// packument has the fields of a registry's document about a package that are used.
type packument struct {
	Name     string                     `json:"name"`
	Tags     map[string]string          `json:"dist-tags"`
	Versions map[string]json.RawMessage `json:"versions"`
}

type versionDocument struct {
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	Optional     map[string]string `json:"optionalDependencies"`
	Dependencies map[string]string `json:"dependencies"`
	Dist         struct {
		Tarball   string `json:"tarball"`
		Integrity string `json:"integrity"`
		Shasum    string `json:"shasum"`
	} `json:"dist"`
}

// maxPackument bounds that document, in bytes. Some registries send the whole document when the short
// one was requested.
const maxPackument = 128 << 20

// short requests the short document for installations, but accepts the whole one.
const short = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8"

// Resolve asks which release a version or tag of a package means.
func (c *Client) Resolve(ctx context.Context, pkg, version string) (Release, error) {
	r := Release{Package: pkg}
	if err := checkPackage(pkg); err != nil {
		return r, err
	}
	registry, err := c.config.registry(pkg)
	if err != nil {
		return r, err
	}
	r.registry = registry
	p, err := c.packument(ctx, registry, pkg)
	if err != nil {
		return r, err
	}
	if r.Version = version; !agent.Exact(version) {
		if r.Version = p.Tags[version]; !agent.Exact(r.Version) {
			return r, spec.Errorf(spec.ErrNotFound, "%s has no tag %q", pkg, version).
				WithHint("%s is its newest version", cmp.Or(newest(p), "none"))
		}
	}
	raw, ok := p.Versions[r.Version]
	if !ok {
		return r, spec.Errorf(spec.ErrNotFound, "%s has no version %s", pkg, r.Version).
			WithHint("%s is its newest", cmp.Or(newest(p), "none"))
	}
	d := &r.document
	if err := json.Unmarshal(raw, d); err != nil || d.Name != pkg || d.Version != r.Version {
		return r, spec.Errorf(nil, "%s tells nonsense of %s %s", registry.Host, pkg, r.Version)
	}
	return r, nil
}

func newest(p *packument) string {
	if v := p.Tags[agent.Latest]; agent.Exact(v) {
		return v
	}
	return ""
}

func (c *Client) packument(ctx context.Context, registry *url.URL, pkg string) (*packument, error) {
	u := packageURL(registry, pkg)
	resp, err := c.request(ctx, u, http.Header{"Accept": {short}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, refused(u, resp, "package "+pkg)
	}
	body := &io.LimitedReader{R: resp.Body, N: maxPackument}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, unreachable(u, err)
	}
	var p packument
	if err := json.Unmarshal(text, &p); err != nil || p.Name != pkg {
		return nil, unreachable(u, fmt.Errorf("the server is not a registry, or its document about %s is invalid", pkg))
	}
	return &p, nil
}

// packageURL returns the address of a package, with the slash in its name escaped.
func packageURL(registry *url.URL, pkg string) *url.URL {
	u := *registry
	u.RawPath = u.EscapedPath() + strings.ReplaceAll(pkg, "/", "%2f")
	u.Path += pkg
	return &u
}

// Platform resolves the package with the program for a platform of a release, which may be
// the release itself, and returns its tarball.
func (c *Client) Platform(ctx context.Context, main Release, p agent.Platform) (Tarball, error) {
	if p.Package == "" {
		return c.tarball(main)
	}
	pkg, version, err := main.holder(p)
	if err != nil {
		return Tarball{}, err
	}
	r, err := c.Resolve(ctx, pkg, version)
	if errors.Is(err, spec.ErrNotFound) {
		err = spec.Errorf(spec.ErrNotFound, "%s %s is not to be had for this platform: %w", main.Package, main.Version, err).
			WithHint("choose another version")
	}
	if err != nil {
		return Tarball{}, err
	}
	return c.tarball(r)
}

// holder finds the package and version of a release for a platform.
func (r Release) holder(p agent.Platform) (pkg, version string, err error) {
	if p.Version != "" {
		return p.Package, strings.ReplaceAll(p.Version, "{version}", r.Version), nil
	}
	pkg, version = p.Package, cmp.Or(r.document.Optional[p.Package], r.document.Dependencies[p.Package])
	if alias, ok := strings.CutPrefix(version, "npm:"); ok {
		at := strings.LastIndexByte(alias, '@')
		if at > 0 {
			pkg, version = alias[:at], alias[at+1:]
		}
	}
	if !agent.Exact(version) {
		return "", "", spec.Errorf(spec.ErrNotFound, "%s %s has no package %s", r.Package, r.Version, p.Package).
			WithHint("it may be too old to be installed so: choose another version")
	}
	return pkg, version, nil
}

func (c *Client) tarball(r Release) (Tarball, error) {
	t := Tarball{Release: r}
	dist := r.document.Dist
	var err error
	if t.Integrity, err = ParseIntegrity(dist.Integrity); err != nil {
		return t, spec.Errorf(spec.ErrDenied, "%s %s is refused: %w", r.Package, r.Version, err).
			WithHint("the registry must tell the SHA-512 of its packages")
	}
	u, err := url.Parse(dist.Tarball)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return t, spec.Errorf(nil, "%s tells no usable address of %s %s", r.registry.Host, r.Package, r.Version)
	}
	// Mirrors pass on the address that npm's own registry wrote. As in npm, it is replaced by the
	// mirror's. An address on the registry's own host is never less protected than the registry.
	switch {
	case u.Host == npmjs && r.registry.Host != npmjs:
		mirror := *r.registry
		mirror.RawPath = mirror.EscapedPath() + strings.TrimPrefix(u.EscapedPath(), "/")
		mirror.Path += strings.TrimPrefix(u.Path, "/")
		mirror.RawQuery = u.RawQuery
		u = &mirror
	case u.Hostname() == r.registry.Hostname() && r.registry.Scheme == "https" && u.Scheme == "http":
		u.Scheme, u.Host = "https", r.registry.Host
	case u.Scheme == "http" && r.registry.Scheme == "https":
		return t, spec.Errorf(spec.ErrDenied, "%s %s lies at %s, which is not encrypted", r.Package, r.Version, shownAddress(u))
	}
	t.URL = u
	return t, nil
}

func checkPackage(pkg string) error {
	scope, name, scoped := strings.Cut(pkg, "/")
	if !scoped {
		scope, name = "@x", pkg
	}
	if len(pkg) > 214 || len(scope) < 2 || scope[0] != '@' || !plainName(scope[1:]) || !plainName(name) {
		return spec.Errorf(spec.ErrUsage, "%q is not the name of a package", pkg)
	}
	return nil
}

func plainName(s string) bool {
	for i, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '~' || i > 0 && (r == '.' || r == '_')) {
			return false
		}
	}
	return s != ""
}
