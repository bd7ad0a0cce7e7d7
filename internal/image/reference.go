package image

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Reference names an image in Docker's notation: without a registry it means Docker Hub, without a tag
// "latest".
type Reference struct {
	Registry, Repository string
	Tag                  string
	Digest               string // if it is pinned; then the tag is only informative
}

const (
	hub     = "docker.io"
	library = "library/"
	latest  = "latest"
)

// ParseReference reads [REGISTRY/]NAME[:TAG][@DIGEST].
func ParseReference(text string) (Reference, error) {
	bad := func(why string) (Reference, error) {
		return Reference{}, spec.Errorf(spec.ErrUsage, "%q is not a reference to an image: %s", text, why).
			WithHint("references look like ubuntu:24.04, ghcr.io/acme/tools:v2 or alpine@sha256:…")
	}
	r := Reference{Registry: hub}
	name, digest, pinned := strings.Cut(text, "@")
	if pinned {
		if err := CheckDigest(digest); err != nil {
			return bad("its digest must be sha256: and 64 hex digits")
		}
		r.Digest = digest
	}
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, r.Tag = name[:i], name[i+1:]
		if !isTag(r.Tag) {
			return bad("its tag is not valid")
		}
	}
	if first, rest, ok := strings.Cut(name, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		r.Registry, name = strings.ToLower(first), rest
	}
	if r.Registry == "index.docker.io" || r.Registry == "registry-1.docker.io" {
		r.Registry = hub
	}
	if !isRegistry(r.Registry) {
		return bad("its registry is not a host")
	}
	for part := range strings.SplitSeq(name, "/") {
		if !isComponent(part) {
			return bad("names have small letters, digits and single . _ - in them")
		}
	}
	if r.Registry == hub && !strings.Contains(name, "/") {
		name = library + name
	}
	r.Repository = name
	if r.Tag == "" && r.Digest == "" {
		r.Tag = latest
	}
	if len(r.String()) > maxName {
		return bad("it is too long")
	}
	return r, nil
}

// maxName bounds names in bytes.
const maxName = 300

// Name is the name an image is kept under: REGISTRY/REPOSITORY:TAG, or @DIGEST.
func (r Reference) Name() string {
	if r.Digest != "" {
		return r.Registry + "/" + r.Repository + "@" + r.Digest
	}
	return r.Registry + "/" + r.Repository + ":" + r.Tag
}

// String is the reference in full.
func (r Reference) String() string {
	text := r.Registry + "/" + r.Repository
	if r.Tag != "" {
		text += ":" + r.Tag
	}
	if r.Digest != "" {
		text += "@" + r.Digest
	}
	return text
}

// Short is the reference as people usually write it.
func (r Reference) Short() string { return Short(r.String()) }

// Short leaves the defaults out of a name.
func Short(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, hub+"/"), library)
}

// Characters of references.
const (
	smallLetters = "abcdefghijklmnopqrstuvwxyz0123456789"
	letters      = smallLetters + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// Title returns the image's name in the short form that people write, or its digest if it has none.
func (i Image) Title() string {
	if i.Name == "" {
		return i.Digest
	}
	return Short(i.Name)
}

// hasOnly reports whether a text has only these characters, and at least one.
func hasOnly(s, set string) bool { return s != "" && strings.Trim(s, set) == "" }

func isComponent(s string) bool {
	return hasOnly(s, smallLetters+"._-") && hasOnly(s[:1], smallLetters) && hasOnly(s[len(s)-1:], smallLetters) &&
		!strings.Contains(s, "..") && !strings.Contains(s, "___")
}

func isTag(s string) bool {
	return hasOnly(s, letters+"._-") && len(s) <= 128 && s[0] != '.' && s[0] != '-'
}

// isRegistry reports whether s is a registry: a name or an address, with an optional port.
func isRegistry(s string) bool {
	return hasOnly(s, smallLetters+".-:[]") && hasOnly(s[:1], smallLetters+"[")
}

const algorithm = "sha256:"

// CheckDigest rejects everything but digests of SHA-256, the only algorithm in use.
func CheckDigest(digest string) error {
	h, ok := strings.CutPrefix(digest, algorithm)
	if b, err := hex.DecodeString(h); !ok || err != nil || len(b) != 32 || strings.ToLower(h) != h {
		return spec.Errorf(spec.ErrDenied, "%q is not a digest of SHA-256", digest)
	}
	return nil
}

// Hex is a digest without its algorithm. The caller has checked the digest.
func Hex(digest string) string { return strings.TrimPrefix(digest, algorithm) }

// Digest writes a sum as a digest.
func Digest(sum []byte) string { return algorithm + hex.EncodeToString(sum) }

// DigestOf returns the digest of a text.
func DigestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return Digest(sum[:])
}
