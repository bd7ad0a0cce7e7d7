package pull

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Bounds of a feature, which has scripts and the files they use.
const (
	maxFeature      = 16 << 20  // bytes of its archive, and of the unpacked files
	maxFeatureFiles = 10_000    // entries
	maxFeatureText  = 128 << 10 // bytes of its metadata
)

// featureConfig is the media type of a feature's configuration.
const featureConfig = "application/vnd.devcontainers"

// pullFeature fetches a feature of development containers: a manifest with one layer, an archive. It makes
// an image from that, so that a build copies from it as from any other image. The archive is read in
// memory and reaches the host's disk only as a layer.
func (w *worker) pullFeature(ctx context.Context) (none image.Image, err error) {
	ref, reg, err := w.connectSource(ctx, w.order.Feature)
	if err != nil {
		return none, err
	}
	defer reg.http.CloseIdleConnections()
	d, err := reg.featureLayer(ctx, ref)
	if err != nil {
		return none, err
	}
	packed, _, err := reg.fetchText(ctx, "blobs/"+d.Digest, nil, "blob "+d.Digest, maxFeature)
	if err == nil {
		packed, err = checkDigest(d, packed)
	}
	if err != nil {
		return none, err
	}
	return whileLocked(ctx, w, func(ctx context.Context) (image.Image, error) { return w.addFeature(ctx, ref, packed) })
}

func (w *worker) addFeature(ctx context.Context, ref image.Reference, packed []byte) (none image.Image, err error) {
	files, about, err := featureImage(packed)
	if err != nil {
		return none, err
	}
	layer := describe(typePlainLayer, files)
	config := bareConfig(image.Host(), []string{layer.Digest})
	config["config"] = map[string]any{"Labels": map[string]string{image.FeatureLabel: string(about)}}
	text, err := json.Marshal(config)
	if err == nil {
		err = w.storeText(layer, files)
	}
	if err != nil {
		return none, err
	}
	r, err := w.storeManifest(image.TypeManifest, typeConfig, text, []image.Descriptor{layer})
	if err != nil {
		return none, err
	}
	r.list = ref.Digest // the feature's digest, not the image's: lookups use it
	return w.addNamed(ctx, r, ref.Name())
}

func (r *registry) featureLayer(ctx context.Context, ref image.Reference) (d image.Descriptor, err error) {
	text, _, err := r.manifest(ctx, cmp.Or(ref.Digest, ref.Tag))
	if err == nil && ref.Digest != "" {
		text, err = checkDigest(image.Descriptor{Digest: ref.Digest}, text)
	}
	if err != nil {
		return d, err
	}
	var m image.Manifest
	if err := decode(text, &m); err != nil {
		return d, spec.Errorf(spec.ErrDenied, "it is not a manifest: %w", err)
	}
	if m.Config.MediaType != featureConfig || len(m.Layers) != 1 {
		return d, spec.Errorf(spec.ErrUsage, "it is not a feature, but something of the kind %q with %d layers", m.Config.MediaType, len(m.Layers)).
			WithHint("an image is named under image, or by FROM")
	}
	d = m.Layers[0]
	if d.Size < 0 || d.Size > maxFeature {
		return d, spec.Errorf(spec.ErrDenied, "it has %d bytes, more than %d", d.Size, maxFeature)
	}
	return d, image.CheckDigest(d.Digest)
}

// featureImage makes a layer from a feature's archive, and finds its metadata. It refuses entries that
// are not files, directories or links, and links that lead out of the archive.
func featureImage(packed []byte) (layer, about []byte, err error) {
	plain, done, err := decompress(bytes.NewReader(packed))
	if err != nil {
		return nil, nil, err
	}
	if done != nil {
		defer done()
	}
	in := tar.NewReader(io.LimitReader(plain, 2*maxFeature)) // it fails at the end of this limit
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for n := 0; ; n++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && n == maxFeatureFiles {
			err = fmt.Errorf("it has more than %d files", maxFeatureFiles)
		}
		if err == nil {
			err = featureEntry(w, h)
		}
		var text []byte
		if err == nil {
			text, err = store.ReadAll(in, int64(maxFeature-out.Len()))
		}
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			return nil, nil, spec.Errorf(spec.ErrDenied, "its archive cannot be used: %w", err)
		}
		if h.Name == image.FeatureDir+"/"+image.FeatureFile && h.Typeflag == tar.TypeReg {
			about = text
		}
	}
	if about == nil || len(about) > maxFeatureText {
		return nil, nil, spec.Errorf(spec.ErrUsage, "it is not a feature: it has no %s, or one with more than %d KiB", image.FeatureFile, maxFeatureText>>10)
	}
	err = w.Close()
	return out.Bytes(), about, err
}

func featureEntry(w *tar.Writer, h *tar.Header) error {
	name := path.Clean(strings.TrimLeft(h.Name, "/"))
	if name == ".." || strings.HasPrefix(name, "../") {
		return fmt.Errorf("%q leads out of it", h.Name)
	}
	to := tar.Header{Typeflag: h.Typeflag, Name: path.Join(image.FeatureDir, name), Mode: h.Mode & 0o777, ModTime: time.Unix(0, 0)}
	switch h.Typeflag {
	case tar.TypeReg:
		to.Size = h.Size
	case tar.TypeDir:
		to.Name += "/"
	case tar.TypeSymlink:
		to.Linkname = h.Linkname
	default:
		return fmt.Errorf("%q is neither a file nor a directory", h.Name)
	}
	h.Name = to.Name
	if h.Typeflag != tar.TypeReg {
		h.Size = 0
	}
	return w.WriteHeader(&to)
}
