package pull

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/export"
	"github.com/bothy-dev/bothy/spec"
)

// plainBase returns an image with the files of another one, but with root as its user. Its root file system
// then keeps all ids, so that build steps see those of the image. If the image is already like that,
// plainBase returns it.
func (w *worker) plainBase(ctx context.Context) (none image.Image, err error) {
	digest := w.order.Plain
	if digest == image.Scratch {
		return w.scratch(ctx)
	}
	_, m, config, err := w.gather(digest)
	if err != nil {
		return none, err
	}
	root, err := w.ensureRoot(ctx, digest)
	if err != nil || root.Account.ImageUID == 0 {
		return image.Image{Digest: digest, Bytes: root.Bytes, Root: &root}, err
	}
	c, err := parseConfig(config)
	if err != nil {
		return none, err
	}
	if config, err = json.Marshal(bareConfig(c.Platform, c.DiffIDs)); err != nil {
		return none, err
	}
	return w.addImage(ctx, m.MediaType, m.Config.MediaType, config, m.Layers, "")
}

func bareConfig(p image.Platform, diffIDs []string) map[string]any {
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
	layer := describe(typePlainLayer, empty)
	config, err := json.Marshal(bareConfig(image.Host(), []string{layer.Digest}))
	if err == nil {
		err = w.storeText(layer, empty)
	}
	if err != nil {
		return image.Image{}, err
	}
	return w.addImage(ctx, image.TypeManifest, typeConfig, config, []image.Descriptor{layer}, "")
}

// addImage adds an image whose layers are on the shelf.
func (w *worker) addImage(ctx context.Context, manifestType, configType string, config []byte, layers []image.Descriptor, name string) (image.Image, error) {
	r, err := w.storeManifest(manifestType, configType, config, layers)
	if err != nil {
		return image.Image{}, err
	}
	return w.addNamed(ctx, r, name)
}

// storeManifest stores the manifest and configuration of a new image whose layers are on the shelf.
func (w *worker) storeManifest(manifestType, configType string, config []byte, layers []image.Descriptor) (resolved, error) {
	c := describe(configType, config)
	m := image.Manifest{SchemaVersion: 2, MediaType: manifestType, Config: c, Layers: layers}
	text, err := json.Marshal(m)
	if err != nil {
		return resolved{}, err
	}
	d := describe(manifestType, text)
	return resolved{Descriptor: d, manifest: m, text: text}, errors.Join(w.storeText(c, config), w.storeText(d, text))
}

// commit makes an image from a build's changes to another image.
func (w *worker) commit(ctx context.Context) (none image.Image, err error) {
	x, name := w.order.Commit, ""
	if x.Name != "" {
		ref, err := image.ParseReference(x.Name)
		if err != nil {
			return none, err
		}
		name = ref.Name()
	}
	if x.Digest != "" {
		b, _, _, err := w.gather(x.Digest)
		if err != nil {
			return none, err
		}
		return w.addNamed(ctx, resolved{Descriptor: b.manifest.Descriptor}, name)
	}
	_, m, config, err := w.gather(x.Base)
	if err != nil {
		return none, err
	}
	base, err := parseConfig(config)
	if err != nil {
		return none, err
	}
	layers, diffIDs := useOCITypes(m.Layers), base.DiffIDs
	if x.Layer != "" {
		layer, diffID, end, err := w.packLayer(ctx, x.Base, export.Options{Layer: x.Layer})
		if err != nil {
			return none, err
		}
		defer end()
		if err := w.retainBlob(layer); err != nil {
			return none, err
		}
		layers, diffIDs = append(layers, layer.Descriptor), append(diffIDs, diffID)
	}
	if len(layers) > maxLayers {
		return none, spec.Errorf(spec.ErrDenied, "the image would have more than %d layers", maxLayers)
	}
	text, err := commitConfig(x, len(m.Layers), diffIDs)
	if err != nil {
		return none, err
	}
	return w.addImage(ctx, image.TypeManifest, typeConfig, text, layers, name)
}

func useOCITypes(layers []image.Descriptor) []image.Descriptor {
	layers = slices.Clone(layers)
	for i := range layers {
		if layers[i].MediaType == typeDockerLayer {
			layers[i].MediaType = typeLayer
		}
	}
	return layers
}

// commitConfig returns the configuration of the new image: the build's, but with the actual layers.
func commitConfig(x *image.Commit, below int, diffIDs []string) ([]byte, error) {
	var c struct {
		Created *time.Time       `json:"created"`
		History []map[string]any `json:"history"`
	}
	if err := json.Unmarshal(x.Config, &c); err != nil {
		return nil, err
	}
	made := x.Made
	if c.Created != nil {
		made = *c.Created
	}
	made = made.UTC().Truncate(time.Second)
	set := map[string]any{"rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs}, "created": made, "history": nil}
	if history := fitHistory(c.History, below); history != nil {
		for _, h := range history {
			if h["created"] == nil {
				h["created"] = made
			}
		}
		if len(diffIDs) > below {
			history = append(history, map[string]any{"created": made, "created_by": "bothy template build"})
		}
		set["history"] = history
	}
	return setConfig(x.Config, set)
}

// fitHistory returns a history in which the steps after the layers below have no layers of their own. It is
// nil if the history does not fit the layers.
func fitHistory(history []map[string]any, below int) []map[string]any {
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
