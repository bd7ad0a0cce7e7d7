package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/spec"
)

// Bounds of manifests and configurations.
const (
	maxManifest = 4 << 20 // bytes, as in registries
	maxConfig   = 8 << 20
	maxLayers   = 256
	maxBlobs    = 64 << 30 // bytes of its layers as they arrive
	maxNested   = 3        // nested lists
	maxOthers   = 32       // kinds of machines that an error names
)

// Bounds of other documents, in bytes.
const (
	maxDockerConfig = 4 << 20  // Docker's configuration
	maxAnswer       = 4 << 20  // Docker's description of an image
	maxToken        = 1 << 20  // the answer of a token server
	maxAuthorities  = 16 << 20 // a file of authorities
)

// document reads a blob that describes something, and checks its digest.
type document func(ctx context.Context, d image.Descriptor) ([]byte, error)

func checkDigest(d image.Descriptor, text []byte) ([]byte, error) {
	if got := image.DigestOf(text); got != d.Digest {
		return nil, spec.Errorf(spec.ErrDenied, "%s is not what its digest says: it is %s", d.Digest, got).
			WithHint("it was damaged on its way or tampered with: try again, and do not trust where it is from if that does not help")
	}
	return text, nil
}

// resolved is a manifest, and the list of platforms from which it was chosen.
type resolved struct {
	image.Descriptor
	manifest image.Manifest
	text     []byte
	list     string
}

// resolve finds the manifest for this machine under a descriptor.
func resolve(ctx context.Context, d image.Descriptor, read document) (r resolved, err error) {
	for range maxNested {
		if err := image.CheckDigest(d.Digest); err != nil {
			return r, err
		}
		text, err := read(ctx, d)
		if err != nil {
			return r, err
		}
		var both struct {
			image.Manifest
			Manifests []image.Descriptor `json:"manifests"`
			FSLayers  []any              `json:"fsLayers"`
		}
		if err := decode(text, &both); err != nil {
			return r, spec.Errorf(spec.ErrDenied, "%s is not a manifest of an image: %w", d.Digest, err)
		}
		switch {
		case both.Manifests != nil && (len(both.Layers) > 0 || both.Config.Digest != ""):
			return r, spec.Errorf(spec.ErrDenied, "%s is both an image and a list of images", d.Digest)
		case both.SchemaVersion == 1 || len(both.FSLayers) > 0:
			return r, spec.Errorf(spec.ErrDenied, "it is of Docker's schema 1, which cannot be checked").
				WithHint("push it again with a Docker of this decade")
		case both.Manifests != nil:
			r.list = cmp.Or(r.list, d.Digest)
			if d, err = choose(both.Manifests); err != nil {
				return r, err
			}
			continue
		}
		d.Size = int64(len(text))
		d.MediaType = cmp.Or(d.MediaType, both.MediaType)
		r.Descriptor, r.manifest, r.text = d, both.Manifest, text
		return r, checkManifest(r.manifest)
	}
	return r, spec.Errorf(spec.ErrDenied, "it is a list of lists of lists")
}

// choose finds the image for this machine in a list. It prefers the first one that runs on every
// processor of the architecture, or else takes the first one that runs. An image that is alone in the
// list need not name a platform: its configuration does.
func choose(list []image.Descriptor) (image.Descriptor, error) {
	list = imagesOf(list)
	if len(list) == 1 && list[0].Platform == nil {
		return list[0], nil
	}
	var others []string
	var special *image.Descriptor
	for _, d := range list {
		if d.Platform == nil {
			continue
		}
		fits, plain := d.Platform.Fits()
		if plain {
			return d, nil
		}
		if fits && special == nil {
			special = &d
		}
		if p := d.Platform.String(); len(others) < maxOthers && !slices.Contains(others, p) {
			others = append(others, p)
		}
	}
	if special != nil {
		return *special, nil
	}
	if others == nil {
		return image.Descriptor{}, spec.Errorf(spec.ErrNotFound, "it is a list of %d images, none of which names a platform", len(list))
	}
	return image.Descriptor{}, wrongPlatform(strings.Join(others, ", "))
}

// imagesOf leaves attestations out of a list.
func imagesOf(list []image.Descriptor) []image.Descriptor {
	return slices.DeleteFunc(slices.Clone(list), attested)
}

func wrongPlatform(is string) error {
	return spec.Errorf(spec.ErrNotFound, "it is not made for %s, only for %s", image.Host(), is).
		WithHint("sandboxes run programs of this machine's kind; ask for another image or tag")
}

// attested reports whether an entry is an attestation about an image, not an image.
func attested(d image.Descriptor) bool {
	return d.Annotations["vnd.docker.reference.type"] != "" || d.Platform != nil && d.Platform.OS == "unknown"
}

// checkManifest rejects a manifest that sandboxes cannot use as an image.
func checkManifest(m image.Manifest) error {
	if t := m.Config.MediaType; t != "" && !strings.Contains(t, "image.config") && !strings.Contains(t, "container.image") {
		return spec.Errorf(spec.ErrUsage, "it is not an image, but something of the kind %s", t)
	}
	if len(m.Layers) == 0 || len(m.Layers) > maxLayers {
		return spec.Errorf(spec.ErrDenied, "it has %d layers, and not 1 to %d", len(m.Layers), maxLayers)
	}
	if m.Config.Size > maxConfig {
		return spec.Errorf(spec.ErrDenied, "its configuration has %d bytes, more than %d", m.Config.Size, maxConfig)
	}
	left := int64(maxBlobs)
	for _, d := range append(slices.Clone(m.Layers), m.Config) {
		if err := image.CheckDigest(d.Digest); err != nil {
			return err
		}
		if d.Size < 0 {
			return spec.Errorf(spec.ErrDenied, "%s has no size", d.Digest)
		}
		if left -= min(d.Size, maxBlobs+1); left < 0 {
			return spec.Errorf(spec.ErrDenied, "it has more than %d GiB", int64(maxBlobs)>>30)
		}
		if strings.Contains(d.MediaType, "encrypted") {
			return spec.Errorf(spec.ErrDenied, "its layers are encrypted, which is not understood")
		}
	}
	return nil
}

func parseConfig(text []byte) (image.Config, error) {
	var c struct {
		Architecture, OS, Variant string
		Created                   time.Time
		Config                    struct {
			User, WorkingDir string
			Env              []string
			Labels           map[string]string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := decode(text, &c); err != nil {
		return image.Config{}, spec.Errorf(spec.ErrDenied, "its configuration cannot be read: %w", err)
	}
	p := image.Platform{OS: c.OS, Architecture: c.Architecture}
	full := image.Platform{OS: c.OS, Architecture: c.Architecture, Variant: c.Variant}
	if fits, _ := full.Fits(); !fits {
		return image.Config{}, wrongPlatform(full.String())
	}
	return image.Config{
		Platform: p, User: c.Config.User, Env: c.Config.Env, Workdir: c.Config.WorkingDir,
		Docker:  c.Config.Labels[image.DockerLabel] == "true",
		DiffIDs: c.RootFS.DiffIDs, Made: c.Created,
	}, nil
}

// maxParts bounds the number of parts of a document that describes images. Each part takes
// much more room in memory than in the text.
const maxParts = 1 << 16

// decode reads a document from an untrusted source. It first checks that the document has
// at most maxParts parts.
func decode(text []byte, v any) error {
	if partsOf(text) > maxParts {
		return spec.Errorf(spec.ErrDenied, "it is of more than %d parts, as nothing is that describes images", maxParts)
	}
	return json.Unmarshal(text, v)
}

// partsOf counts the commas and the opening brackets of a document, without those in strings.
func partsOf(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}

// maxSaid bounds the text of an error, in bytes, because the error may quote a faulty
// document at length.
const maxSaid = 4 << 10

// clipped is an error whose text is cut to maxSaid bytes.
type clipped struct{ error }

func (c clipped) Unwrap() error { return c.error }

func (c clipped) Error() string {
	text := c.error.Error()
	if len(text) <= maxSaid {
		return text
	}
	return strings.ToValidUTF8(text[:maxSaid], "") + " …"
}
