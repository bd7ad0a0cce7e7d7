package pull

import (
	"bytes"
	"context"
	"io"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/spec"
)

// dockerImage is an image in the manifest.json of docker save.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// loadDocker reads the format that docker save wrote before image layouts.
func (w *worker) loadDocker(ctx context.Context, from files) ([]image.Image, error) {
	top, err := readSmall(from, "manifest.json", maxManifest)
	if err != nil {
		return nil, err
	}
	var saved []dockerImage
	if err := decode(top, &saved); err != nil {
		return nil, spec.Errorf(spec.ErrDenied, "its manifest.json cannot be read: %w", err)
	}
	names := 0
	for _, s := range saved {
		if names += max(1, len(s.RepoTags)); names > maxLoaded {
			return nil, errMany()
		}
	}
	var list []found
	for _, s := range saved {
		r, err := w.translate(ctx, from, s)
		if err != nil {
			return nil, err
		}
		if len(s.RepoTags) == 0 {
			s.RepoTags = []string{""}
		}
		for _, tag := range s.RepoTags {
			name, err := w.nameOf(map[string]string{image.FullNameKey: tag}, len(saved) == 1)
			if err != nil {
				return nil, err
			}
			list = append(list, found{resolved: r, name: name})
			if w.order.Name != "" || w.order.Nameless {
				break
			}
		}
	}
	if len(list) == 0 {
		return nil, spec.Errorf(spec.ErrUsage, "it holds no image")
	}
	return w.finishAll(ctx, list)
}

// translate makes a manifest for an image that has none.
func (w *worker) translate(ctx context.Context, from files, s dockerImage) (resolved, error) {
	config, err := readSmall(from, s.Config, maxConfig)
	if err != nil {
		return resolved{}, errMissing(err)
	}
	c, err := parseConfig(config)
	if err != nil {
		return resolved{}, err
	}
	if len(s.Layers) > maxLayers { // before each is read
		return resolved{}, spec.Errorf(spec.ErrDenied, "it has %d layers, more than %d", len(s.Layers), maxLayers)
	}
	if len(c.DiffIDs) != len(s.Layers) {
		return resolved{}, spec.Errorf(spec.ErrDenied, "its configuration tells of %d layers, its manifest.json of %d", len(c.DiffIDs), len(s.Layers))
	}
	m := image.Manifest{Config: describe(typeConfig, config)}
	told := w.counter(image.Reading, 0)
	for i, name := range s.Layers {
		d := image.Descriptor{MediaType: typePlainLayer, Digest: c.DiffIDs[i]}
		if err := image.CheckDigest(d.Digest); err != nil {
			return resolved{}, err
		}
		r, size, err := from.Open(name)
		if err != nil {
			return resolved{}, errMissing(err)
		}
		d.Size = size
		head := make([]byte, len(zstdMagic))
		n, _ := io.ReadFull(r, head)
		_ = r.Close()
		if bytes.HasPrefix(head[:n], gzipMagic) || bytes.Equal(head[:n], zstdMagic) {
			if d.Digest, err = digestOf(ctx, from, name); err != nil {
				return resolved{}, err
			}
		}
		if err := w.copyBlob(ctx, from, name, d, told); err != nil {
			return resolved{}, err
		}
		m.Layers = append(m.Layers, d)
	}
	if err := checkManifest(m); err != nil {
		return resolved{}, err
	}
	return w.storeManifest(image.TypeManifest, typeConfig, config, m.Layers)
}
