package pull

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/erofs"
	"github.com/bothy-dev/bothy/internal/image/export"
	"github.com/bothy-dev/bothy/spec"
)

// ready returns an image with the files of another one, but with root as its user. Its root file system
// then keeps all ids, so that build steps see those of the image. If the image is already like that,
// ready returns it.
func (w *worker) ready(ctx context.Context, digest string) ([]image.Image, error) {
	if digest == image.Scratch {
		img, err := w.scratch(ctx)
		return []image.Image{img}, err
	}
	b, m, config, err := w.gather(digest)
	if err != nil {
		return nil, err
	}
	defer b.close()
	root, err := w.root(ctx, image.Descriptor{Digest: digest})
	if err != nil || root.Account.ImageUID == 0 {
		return []image.Image{{Digest: digest, Bytes: root.Bytes, Root: &root}}, err
	}
	c, err := parseConfig(config)
	if err != nil {
		return nil, err
	}
	if config, err = json.Marshal(bare(c.Platform, c.DiffIDs)); err != nil {
		return nil, err
	}
	img, err := w.add(ctx, m.MediaType, m.Config.MediaType, config, m.Layers, "")
	return []image.Image{img}, err
}

// bare is an image configuration without any settings.
func bare(p image.Platform, diffIDs []string) map[string]any {
	return map[string]any{
		"architecture": p.Architecture, "os": p.OS, "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs},
	}
}

// typeConfig is the media type of the configuration of new images.
const typeConfig = "application/vnd.oci.image.config.v1+json"

// scratch makes an image without files. It has one empty layer, because an image needs a layer.
func (w *worker) scratch(ctx context.Context) (image.Image, error) {
	empty := make([]byte, 1024) // the end of an archive
	layer := describe("application/vnd.oci.image.layer.v1.tar", empty)
	config, err := json.Marshal(bare(image.Host(), []string{layer.Digest}))
	if err == nil {
		err = w.keep(layer, empty)
	}
	if err != nil {
		return image.Image{}, err
	}
	return w.add(ctx, image.TypeManifest, typeConfig, config, []image.Descriptor{layer}, "")
}

// add adds an image whose layers are on the shelf.
func (w *worker) add(ctx context.Context, manifestType, configType string, config []byte, layers []image.Descriptor, name string) (image.Image, error) {
	r, err := w.made(manifestType, configType, config, layers)
	if err != nil {
		return image.Image{}, err
	}
	return w.finish(ctx, r, name)
}

// made stores the manifest and configuration of a new image whose layers are on the shelf.
func (w *worker) made(manifestType, configType string, config []byte, layers []image.Descriptor) (resolved, error) {
	c := describe(configType, config)
	m := image.Manifest{SchemaVersion: 2, MediaType: manifestType, Config: c, Layers: layers}
	text, err := json.Marshal(m)
	if err != nil {
		return resolved{}, err
	}
	d := describe(manifestType, text)
	return resolved{Descriptor: d, manifest: m, text: text}, errors.Join(w.keep(c, config), w.keep(d, text))
}

// commit makes an image from a build's changes to another image.
func (w *worker) commit(ctx context.Context, x image.Commit) ([]image.Image, error) {
	name := ""
	if x.Name != "" {
		ref, err := image.ParseReference(x.Name)
		if err != nil {
			return nil, err
		}
		name = ref.Name()
	}
	if x.Digest != "" {
		b, _, _, err := w.gather(x.Digest)
		if err != nil {
			return nil, err
		}
		b.close()
		img, err := w.finish(ctx, resolved{Descriptor: b.manifest.Descriptor}, name)
		return []image.Image{img}, err
	}
	b, m, config, err := w.gather(x.Base)
	if err != nil {
		return nil, err
	}
	defer b.close()
	base, err := parseConfig(config)
	if err != nil {
		return nil, err
	}
	layers, diffIDs := oci(m.Layers), base.DiffIDs
	if x.Layer != "" {
		d, diffID, err := w.layer(ctx, x, m)
		if err != nil {
			return nil, err
		}
		layers, diffIDs = append(layers, d), append(diffIDs, diffID)
	}
	if len(layers) > maxLayers {
		return nil, spec.Errorf(spec.ErrDenied, "the image would have more than %d layers", maxLayers)
	}
	text, err := committed(x, len(m.Layers), diffIDs)
	if err != nil {
		return nil, err
	}
	img, err := w.add(ctx, image.TypeManifest, typeConfig, text, layers, name)
	return []image.Image{img}, err
}

// oci replaces Docker's own media types of layers with those of OCI.
func oci(layers []image.Descriptor) []image.Descriptor {
	layers = slices.Clone(layers)
	for i := range layers {
		if layers[i].MediaType == typeDockerLayer {
			layers[i].MediaType = typeLayer
		}
	}
	return layers
}

// layer packs the changes of a build and stores them as a blob.
func (w *worker) layer(ctx context.Context, x image.Commit, m image.Manifest) (d image.Descriptor, diffID string, err error) {
	root, err := w.root(ctx, image.Descriptor{Digest: x.Base})
	if err != nil {
		return d, "", err
	}
	f, err := os.Open(root.File())
	if err != nil {
		return d, "", err
	}
	defer f.Close()
	base, err := erofs.Open(f)
	if err != nil {
		return d, "", err
	}
	packed, digest, diffID, err := w.pack(ctx, export.Options{Layer: x.Layer, Root: root, Base: base, UID: w.order.UID, GID: w.order.GID})
	if err != nil {
		return d, "", err
	}
	defer packed.Close()
	info, err := packed.Stat()
	if err != nil {
		return d, "", err
	}
	d = image.Descriptor{MediaType: typeLayer, Digest: digest, Size: info.Size()}
	return d, diffID, w.retainBlob(blob{d, func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(packed, 0, d.Size)), nil
	}})
}

// committed returns the configuration of the new image: the build's, but with the actual layers.
func committed(x image.Commit, below int, diffIDs []string) ([]byte, error) {
	c := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(x.Config))
	if err := d.Decode(&c); err != nil {
		return nil, err
	}
	var history []map[string]any
	if err := json.Unmarshal(orNull(c["history"]), &history); err != nil {
		return nil, err
	}
	made, err := madeAt(c["created"], x.Made)
	if err != nil {
		return nil, err
	}
	set := func(key string, v any) {
		text, merr := json.Marshal(v)
		c[key], err = text, errors.Join(err, merr)
	}
	set("rootfs", map[string]any{"type": "layers", "diff_ids": diffIDs})
	set("created", made)
	if history = told(history, below); history == nil {
		delete(c, "history")
	} else {
		for _, h := range history {
			if h["created"] == nil {
				h["created"] = made
			}
		}
		if len(diffIDs) > below {
			history = append(history, map[string]any{"created": made, "created_by": "bothy template build"})
		}
		set("history", history)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(c)
}

// madeAt returns the creation time in an image's configuration, or now if there is none.
func madeAt(created json.RawMessage, now time.Time) (time.Time, error) {
	var at *time.Time
	err := json.Unmarshal(orNull(created), &at)
	if at == nil {
		at = &now
	}
	return at.UTC().Truncate(time.Second), err
}

func orNull(text json.RawMessage) json.RawMessage {
	if text == nil {
		return json.RawMessage("null")
	}
	return text
}

// told returns a history in which the steps after the layers below have no layers of their own. It is
// nil if the history does not fit the layers.
func told(history []map[string]any, below int) []map[string]any {
	full := 0
	for _, h := range history {
		if h["empty_layer"] == true {
			continue
		}
		if full++; full > below {
			h["empty_layer"] = true
		}
	}
	if full < below {
		return nil
	}
	return history
}
