package pull

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
)

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
