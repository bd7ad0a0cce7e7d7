package pull

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/erofs"
	"github.com/bothy-dev/bothy/internal/image/export"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// blob is a blob that can be opened repeatedly.
type blob struct {
	image.Descriptor
	open func() (io.ReadCloser, error)
}

// bundle is an image with all its blobs.
type bundle struct {
	manifest, config blob
	layers           []blob
	close            func()
}

// all returns the blobs, each once, the manifest last.
func (b bundle) all() (list []blob) {
	seen := map[string]bool{}
	for _, x := range append(append([]blob{}, b.layers...), b.config, b.manifest) {
		if !seen[x.Digest] {
			list = append(list, x)
		}
		seen[x.Digest] = true
	}
	return list
}

func (b bundle) size() (sum int64) {
	for _, x := range b.all() {
		sum += x.Size
	}
	return sum
}

// export writes an image to a file, or sends it to a registry.
func (w *worker) export(ctx context.Context, x image.Export) ([]image.Image, error) {
	ref, err := image.ParseReference(x.Name)
	if err == nil && ref.Digest != "" {
		err = spec.Errorf(spec.ErrUsage, "a digest is no name: what an image is called may change, what it is may not")
	}
	if err != nil {
		return nil, err
	}
	var b bundle
	kept, err := w.alone(ctx, func(ctx context.Context) (kept []image.Image, err error) {
		if b, err = w.bundle(ctx, x); err != nil || !x.Keep {
			return nil, err
		}
		img, err := w.retain(ctx, b)
		return []image.Image{img}, err
	})
	if b.close != nil {
		defer b.close()
	}
	if err != nil || x.Keep {
		return kept, failed("make an image of it", err)
	}
	if x.Push {
		err = failed("push "+ref.Short(), w.push(ctx, b, ref, x.Mount))
	} else {
		err = failed("write the image", w.archive(ctx, b, ref, x.To))
	}
	return []image.Image{{Name: ref.Name(), Digest: b.manifest.Digest, Bytes: b.size()}}, err
}

// bundle gathers an image from the shelf, or makes one on top of it.
func (w *worker) bundle(ctx context.Context, x image.Export) (bundle, error) {
	b, m, config, err := w.gather(x.Digest)
	if err != nil || x.Home == "" {
		return b, err
	}
	return w.extend(ctx, b, x, m, config)
}

// gather collects an image from the shelf: its blobs, its manifest and its configuration.
func (w *worker) gather(digest string) (b bundle, m image.Manifest, config []byte, err error) {
	b.close = func() {}
	if err := image.CheckDigest(digest); err != nil {
		return b, m, nil, err
	}
	text, err := w.read(image.Descriptor{Digest: digest}, maxManifest)
	if err != nil {
		return b, m, nil, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return b, m, nil, err
	}
	if config, err = w.read(m.Config, maxConfig); err != nil {
		return b, m, nil, err
	}
	for _, l := range m.Layers {
		if !w.has(l) {
			return b, m, nil, spec.Errorf(spec.ErrNotFound, "blob %s of the image is not on this machine any more", l.Digest).
				WithHint("fetch the image again: bothy template pull")
		}
		b.layers = append(b.layers, blob{l, func() (io.ReadCloser, error) { return store.OpenRegular(w.shelf.Blob(l.Digest), 0) }})
	}
	b.config = inMemory(m.Config.MediaType, config)
	b.manifest = inMemory(cmp.Or(m.MediaType, image.TypeManifest), text)
	return b, m, config, nil
}

func inMemory(mediaType string, text []byte) blob {
	return blob{describe(mediaType, text), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }}
}

// Media types of new layers.
const (
	typeLayer       = "application/vnd.oci.image.layer.v1.tar+gzip"
	typeDockerLayer = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// extend adds a layer to an image.
func (w *worker) extend(ctx context.Context, b bundle, x image.Export, m image.Manifest, config []byte) (bundle, error) {
	root, err := w.root(ctx, image.Descriptor{Digest: x.Digest})
	if err != nil {
		return b, err
	}
	f, err := os.Open(root.File())
	if err != nil {
		return b, err
	}
	defer f.Close()
	base, err := erofs.Open(f)
	if err != nil {
		return b, err
	}
	layer, digest, diffID, err := w.pack(ctx, export.Options{
		Layer: x.Layer, Home: x.Home, Root: root, Base: base, UID: w.order.UID, GID: w.order.GID, Places: x.Places,
	})
	if err != nil {
		return b, err
	}
	b.close = func() { _ = layer.Close() }
	info, err := layer.Stat()
	if err != nil {
		return b, err
	}
	d := image.Descriptor{MediaType: typeLayer, Digest: digest, Size: info.Size()}
	if m.MediaType == image.TypeDockerManifest {
		d.MediaType = typeDockerLayer
	}
	b.layers = append(b.layers, blob{d, func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(layer, 0, d.Size)), nil
	}})
	if config, err = extendConfig(config, diffID, x.Made); err != nil {
		return b, err
	}
	b.config = inMemory(m.Config.MediaType, config)
	m.SchemaVersion, m.MediaType = 2, cmp.Or(m.MediaType, image.TypeManifest)
	m.Config = b.config.Descriptor
	m.Layers = append(m.Layers, d)
	text, err := json.Marshal(m)
	b.manifest = inMemory(m.MediaType, text)
	return b, err
}

// pack writes the new layer, compressed, to a file without a name. It returns the digests
// of the compressed file and of the uncompressed layer.
func (w *worker) pack(ctx context.Context, o export.Options) (f *os.File, digest, diffID string, err error) {
	plain, packed := sha256.New(), sha256.New()
	r, out := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		z := gzip.NewWriter(out)
		err := export.Write(io.MultiWriter(z, plain), o)
		if err == nil {
			err = z.Close()
		}
		_ = out.CloseWithError(err)
	}()
	f, err = w.shelf.Spool(io.TeeReader(&counted{ctx, r, w.counter(image.Packing, 0)}, packed))
	_ = r.CloseWithError(io.ErrClosedPipe)
	<-done
	return f, image.Digest(packed.Sum(nil)), image.Digest(plain.Sum(nil)), err
}

// extendConfig adds a layer to an image's configuration and keeps everything else.
func extendConfig(text []byte, diffID string, made time.Time) ([]byte, error) {
	c := map[string]json.RawMessage{}
	var rootfs struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	var history []json.RawMessage
	err := json.Unmarshal(text, &c)
	if err == nil {
		err = json.Unmarshal(c["rootfs"], &rootfs)
	}
	if err == nil && c["history"] != nil {
		err = json.Unmarshal(c["history"], &history)
	}
	if err != nil {
		return nil, spec.Errorf(spec.ErrDenied, "its configuration cannot be read: %w", err)
	}
	rootfs.Type, rootfs.DiffIDs = cmp.Or(rootfs.Type, "layers"), append(rootfs.DiffIDs, diffID)
	made = made.UTC().Truncate(time.Second)
	set := func(key string, v any) {
		b, merr := json.Marshal(v)
		c[key], err = b, errors.Join(err, merr)
	}
	set("rootfs", rootfs)
	set("created", made)
	if len(history) > 0 { // a missing history is not added
		step, merr := json.Marshal(map[string]any{"created": made, "created_by": "bothy save"})
		err = errors.Join(err, merr)
		set("history", append(history, step))
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(c)
}

// retain stores an image that was gathered here.
func (w *worker) retain(ctx context.Context, b bundle) (image.Image, error) {
	for _, x := range b.all() {
		if err := w.retainBlob(x); err != nil {
			return image.Image{}, err
		}
	}
	return w.finish(ctx, resolved{Descriptor: b.manifest.Descriptor}, "")
}

func (w *worker) retainBlob(x blob) error {
	if w.has(x.Descriptor) {
		return nil
	}
	r, err := x.open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	p, err := w.begin(x.Descriptor)
	if err != nil {
		return err
	}
	defer p.close()
	defer p.remove() // later pulls do not resume it
	if _, err := io.Copy(p, r); err != nil {
		return err
	}
	return p.finish()
}
