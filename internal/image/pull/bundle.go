package pull

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"maps"
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
	close            func() // nil if nothing needs to be closed
}

// allBlobs returns the blobs, each once, the manifest last.
func (b bundle) allBlobs() (list []blob) {
	seen := map[string]bool{}
	for _, x := range append(append([]blob{}, b.layers...), b.config, b.manifest) {
		if !seen[x.Digest] {
			list = append(list, x)
		}
		seen[x.Digest] = true
	}
	return list
}

func (b bundle) totalSize() (sum int64) {
	for _, x := range b.allBlobs() {
		sum += x.Size
	}
	return sum
}

// export writes an image to a file, or sends it to a registry.
func (w *worker) export(ctx context.Context, x image.Export) (none image.Image, err error) {
	ref, err := parseName(x.Name)
	if err != nil {
		return none, err
	}
	var b bundle
	kept, err := whileLocked(ctx, w, func(ctx context.Context) (_ image.Image, err error) {
		var m image.Manifest
		var config []byte
		if b, m, config, err = w.gather(x.Digest); err == nil && x.Home != "" {
			b, err = w.extend(ctx, b, x, m, config)
		}
		if err != nil || !x.Keep {
			return none, err
		}
		return w.retain(ctx, b)
	})
	if b.close != nil {
		defer b.close()
	}
	if err != nil || x.Keep {
		return kept, wrapError("make an image of it", err)
	}
	if x.Push {
		err = wrapError("push "+ref.Short(), w.pushBundle(ctx, b, ref, x.Mount))
	} else {
		err = wrapError("write the image", w.archive(ctx, b, ref, x.To))
	}
	return image.Image{Name: ref.Name(), Digest: b.manifest.Digest, Bytes: b.totalSize()}, err
}

// parseName reads a name for an image, which a digest cannot be.
func parseName(text string) (image.Reference, error) {
	ref, err := image.ParseReference(text)
	if err == nil && ref.Digest != "" {
		err = spec.Errorf(spec.ErrUsage, "a digest cannot be a name: a name can move to another image, a digest cannot")
	}
	return ref, err
}

func (w *worker) gather(digest string) (b bundle, m image.Manifest, config []byte, err error) {
	if err := image.CheckDigest(digest); err != nil {
		return b, m, nil, err
	}
	text, m, config, err := w.readImage(digest)
	if err != nil {
		return b, m, nil, err
	}
	for _, l := range m.Layers {
		if !w.hasBlob(l) {
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
	typePlainLayer  = "application/vnd.oci.image.layer.v1.tar"
	typeLayer       = "application/vnd.oci.image.layer.v1.tar+gzip"
	typeDockerLayer = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

func (w *worker) extend(ctx context.Context, b bundle, x image.Export, m image.Manifest, config []byte) (bundle, error) {
	layer, diffID, end, err := w.packLayer(ctx, x.Digest, export.Options{Layer: x.Layer, Home: x.Home, Places: x.Places})
	if err != nil {
		return b, err
	}
	b.close = end
	if m.MediaType == image.TypeDockerManifest {
		layer.MediaType = typeDockerLayer
	}
	b.layers = append(b.layers, layer)
	if config, err = extendConfig(config, diffID, x.Made); err != nil {
		return b, err
	}
	b.config = inMemory(m.Config.MediaType, config)
	m.SchemaVersion, m.MediaType = 2, cmp.Or(m.MediaType, image.TypeManifest)
	m.Config = b.config.Descriptor
	m.Layers = append(m.Layers, layer.Descriptor)
	text, err := json.Marshal(m)
	b.manifest = inMemory(m.MediaType, text)
	return b, err
}

// packLayer makes a layer over a local image, and returns the digest of its uncompressed content, too. end
// frees the layer.
func (w *worker) packLayer(ctx context.Context, base string, o export.Options) (layer blob, diffID string, end func(), err error) {
	if o.Root, err = w.ensureRoot(ctx, base); err != nil {
		return layer, "", nil, err
	}
	f, err := os.Open(o.Root.File())
	if err != nil {
		return layer, "", nil, err
	}
	defer f.Close()
	if o.Base, err = erofs.Open(f); err != nil {
		return layer, "", nil, err
	}
	o.UID, o.GID = w.order.UID, w.order.GID
	packed, digest, diffID, err := w.packChanges(ctx, o)
	if err != nil {
		return layer, "", nil, err
	}
	info, err := packed.Stat()
	if err != nil {
		_ = packed.Close()
		return layer, "", nil, err
	}
	layer = blob{image.Descriptor{MediaType: typeLayer, Digest: digest, Size: info.Size()}, func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(packed, 0, info.Size())), nil
	}}
	return layer, diffID, func() { _ = packed.Close() }, nil
}

// packChanges writes the new layer, compressed, to a file without a name. It returns the digests
// of the compressed file and of the uncompressed layer.
func (w *worker) packChanges(ctx context.Context, o export.Options) (f *os.File, digest, diffID string, err error) {
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
	var c struct {
		RootFS struct {
			Type    string   `json:"type"`
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
		History []json.RawMessage `json:"history"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, spec.Errorf(spec.ErrDenied, "its configuration cannot be read: %w", err)
	}
	c.RootFS.Type, c.RootFS.DiffIDs = cmp.Or(c.RootFS.Type, "layers"), append(c.RootFS.DiffIDs, diffID)
	made = made.UTC().Truncate(time.Second)
	set := map[string]any{"rootfs": c.RootFS, "created": made}
	if len(c.History) > 0 { // a missing history is not added
		step, err := json.Marshal(map[string]any{"created": made, "created_by": "bothy save"})
		if err != nil {
			return nil, err
		}
		set["history"] = append(c.History, step)
	}
	return setConfig(text, set)
}

// setConfig sets keys of a configuration and keeps the others as they are. It removes keys without a value.
func setConfig(text []byte, set map[string]any) ([]byte, error) {
	var old map[string]json.RawMessage
	if err := json.Unmarshal(text, &old); err != nil {
		return nil, err
	}
	config := map[string]any{}
	for key, value := range old {
		config[key] = value
	}
	maps.Copy(config, set)
	maps.DeleteFunc(config, func(_ string, value any) bool { return value == nil })
	return json.Marshal(config)
}

func (w *worker) retain(ctx context.Context, b bundle) (image.Image, error) {
	for _, x := range b.allBlobs() {
		if err := w.retainBlob(x); err != nil {
			return image.Image{}, err
		}
	}
	return w.addNamed(ctx, resolved{Descriptor: b.manifest.Descriptor}, "")
}

func (w *worker) retainBlob(x blob) error {
	if w.hasBlob(x.Descriptor) {
		return nil
	}
	r, err := x.open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	p, err := w.newPart(x.Descriptor)
	if err != nil {
		return err
	}
	defer p.close()
	defer p.remove() // later pulls do not resume it: its source is either complete or missing
	if _, err := io.Copy(p, r); err != nil {
		return err
	}
	return p.finish()
}

// archive writes an image as a tar archive with an OCI image layout, and with the manifest.json for
// versions of Docker that do not know layouts. The same image makes the same archive.
func (w *worker) archive(ctx context.Context, b bundle, ref image.Reference, to string) error {
	f, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	a := &layoutWriter{tar.NewWriter(f), w.counter(image.Writing, b.totalSize())}
	err = a.writeLayout(ctx, b, ref)
	if err == nil {
		err = a.tw.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

type layoutWriter struct {
	tw   *tar.Writer
	told func(int64)
}

func (a *layoutWriter) writeLayout(ctx context.Context, b bundle, ref image.Reference) error {
	d := b.manifest.Descriptor
	d.Annotations = map[string]string{image.FullNameKey: ref.Name(), image.NameKey: ref.Tag}
	docker := dockerImage{Config: blobName(b.config.Digest), RepoTags: []string{ref.Short()}}
	for _, l := range b.layers {
		docker.Layers = append(docker.Layers, blobName(l.Digest))
	}
	for _, f := range []struct {
		name string
		v    any
	}{
		{"oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}},
		{"index.json", image.Index{SchemaVersion: 2, MediaType: image.TypeIndex, Manifests: []image.Descriptor{d}}},
		{"manifest.json", []dockerImage{docker}},
	} {
		text, err := json.Marshal(f.v)
		if err == nil {
			err = a.writeFile(f.name, int64(len(text)), bytes.NewReader(text))
		}
		if err != nil {
			return err
		}
	}
	for _, dir := range []string{"blobs/", "blobs/sha256/"} {
		if err := a.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
	}
	for _, x := range b.allBlobs() {
		if err := a.writeBlob(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

func (a *layoutWriter) writeBlob(ctx context.Context, x blob) error {
	r, err := x.open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return a.writeFile(blobName(x.Digest), x.Size, &counted{ctx, r, a.told})
}

func (a *layoutWriter) writeFile(name string, size int64, r io.Reader) error {
	err := a.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = io.Copy(a.tw, r)
	}
	return err
}
