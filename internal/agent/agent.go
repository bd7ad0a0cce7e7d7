// Package agent knows the agents: their descriptions, those of Bothy and those of the user, and the
// installed programs with their directories. It also defines the messages to the process that installs
// one. It contacts no server: that process links an HTTP client, and other commands do without it.
//
// A description is data, one YAML file. The code knows no agent by its name.
package agent

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/bothy-dev/bothy/spec"
)

// Source is the origin of a program. Platform is the package that contains it.
type (
	Source   = spec.AgentSource
	Platform = spec.AgentPlatform
)

func checkSource(s Source) error {
	if len(s.Platforms) == 0 {
		return spec.Errorf(spec.ErrUsage, "the source %s names no platform", s.Package)
	}
	for _, w := range s.With {
		if _, _, err := CutPackage(w); err != nil {
			return err
		}
	}
	for key, p := range s.Platforms {
		if b := p.Binary; b == "" || path.Clean(b) != b || path.IsAbs(b) || b == "." || b == ".." || strings.HasPrefix(b, "../") {
			return spec.Errorf(spec.ErrUsage, "the source %s has no usable binary for %s: %q", s.Package, key, b)
		}
	}
	return nil
}

// CutPackage splits PACKAGE@VERSION, with a whole version.
func CutPackage(text string) (pkg, version string, err error) {
	at := strings.LastIndexByte(text, '@')
	if at < 1 || !Exact(text[at+1:]) || path.Clean("/"+text[:at]) != "/"+text[:at] {
		return "", "", spec.Errorf(spec.ErrUsage, "with: %q is not PACKAGE@VERSION with a whole version, like tool@1.2.3", text)
	}
	return text[:at], text[at+1:], nil
}

// PlatformFor finds a source's package for a target, and the key under which it was found.
func PlatformFor(s Source, t Target) (key string, p Platform, err error) {
	for _, key := range t.platformKeys() {
		if p, ok := s.Platforms[key]; ok {
			return key, p, nil
		}
	}
	return "", p, spec.Errorf(spec.ErrNotFound, "%s is not made for %s", s.Package, t).
		WithHint("it is made for %s", strings.Join(slices.Sorted(maps.Keys(s.Platforms)), ", "))
}

// Request is a request for a program.
type Request struct {
	Name    string `json:"name"` // under which the program is installed
	Source  Source `json:"source"`
	Version string `json:"version"` // a version or a tag; empty is latest
	Target  Target `json:"target"`
}

// Latest is the tag that is used if none is named.
const Latest = "latest"

// Check rejects an invalid request, and fills in the defaults.
func (r *Request) Check() error {
	if err := checkInstalled(r.Name); err != nil {
		return err
	}
	if r.Version == "" {
		r.Version = cmp.Or(r.Source.Version, Latest)
	}
	if err := checkVersion(r.Version); err != nil {
		return err
	}
	return checkSource(r.Source)
}

// Exact reports whether a version is exact, not a tag.
func Exact(version string) bool {
	v := "v" + version
	return semver.IsValid(v) && semver.Canonical(v) == v
}

// AtLeast reports whether an exact version is another one or newer.
func AtLeast(version, least string) bool {
	return Exact(version) && semver.Compare("v"+version, "v"+least) >= 0
}

// checkVersion rejects text that is neither a version nor a tag. npm's ranges are neither: a request
// pins one version.
func checkVersion(v string) error {
	if Exact(v) {
		return nil
	}
	plain := strings.IndexFunc(v, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	}) < 0
	if !plain || len(v) > maxName || v[0] == '.' || semver.IsValid("v"+v) || semver.IsValid(v) {
		return spec.Errorf(spec.ErrUsage, "%q is neither a version nor a tag", v).
			WithHint("write a whole version, like 1.2.3, or a tag, like %s", Latest)
	}
	return nil
}

const maxName = 64
