package pull

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/layers"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// addNamed makes the root of an image whose blobs are on the shelf, and names the image.
func (w *worker) addNamed(ctx context.Context, r resolved, name string) (image.Image, error) {
	return w.addToShelf(ctx, r, name, false)
}

// addToShelf is addNamed for a name that may only be claimed.
func (w *worker) addToShelf(ctx context.Context, r resolved, name string, claimed bool) (image.Image, error) {
	root, err := w.ensureRoot(ctx, r.Digest)
	if err != nil {
		return image.Image{}, err
	}
	img := image.Image{Name: name, Digest: r.Digest, List: r.list, Bytes: root.Bytes, Root: &root, Claimed: claimed}
	return img, w.shelf.Add(r.Descriptor, img)
}

// ensureRoot returns the root of an image, and makes it if it is missing.
func (w *worker) ensureRoot(ctx context.Context, digest string) (image.Root, error) {
	if root, err := w.shelf.UsableRoot(digest); err == nil {
		return root, nil
	}
	_, m, text, err := w.readImage(digest)
	if err != nil {
		return image.Root{}, err
	}
	config, err := parseConfig(text)
	if err != nil {
		return image.Root{}, err
	}
	if len(config.DiffIDs) != len(m.Layers) {
		return image.Root{}, spec.Errorf(spec.ErrDenied, "its configuration tells of %d layers, its manifest of %d", len(config.DiffIDs), len(m.Layers))
	}
	return w.buildRoot(ctx, digest, m, config)
}

func (w *worker) readImage(digest string) (text []byte, m image.Manifest, config []byte, err error) {
	if text, err = w.readText(image.Descriptor{Digest: digest}, maxManifest); err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil {
		config, err = w.readText(m.Config, maxConfig)
	}
	return text, m, config, err
}

func (w *worker) buildRoot(ctx context.Context, digest string, m image.Manifest, c image.Config) (image.Root, error) {
	dir, err := w.shelf.NewRoot()
	if err != nil {
		return image.Root{}, err
	}
	defer func() { _ = store.RemoveTree(dir) }() // once the root is in place, this name is gone
	told := w.counter(image.Unpacking, totalSize(m)-m.Config.Size)
	var open []func() (io.ReadCloser, error)
	for i, l := range m.Layers {
		open = append(open, func() (io.ReadCloser, error) {
			return openLayer(ctx, w.shelf.Blob(l.Digest), c.DiffIDs[i], told)
		})
	}
	root, err := w.writeRoot(dir, c, open)
	if err != nil {
		return root, err
	}
	root.Digest = digest
	return w.shelf.PutRoot(dir, root)
}

// writeRoot makes a root's files durable.
func (w *worker) writeRoot(dir string, c image.Config, open []func() (io.ReadCloser, error)) (image.Root, error) {
	var files [2]*os.File
	made := image.Root{Dir: dir}
	for i, name := range []string{made.File(), made.Home()} {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return image.Root{}, err
		}
		defer f.Close()
		files[i] = f
	}
	root, err := layers.Build(files[0], files[1], layers.Options{
		UID: w.order.UID, GID: w.order.GID, Config: c, Resolver: w.order.Resolver, Room: w.order.Room,
	}, open)
	for _, f := range files {
		if err == nil {
			err = f.Sync()
		}
	}
	if err == nil {
		root.Bytes, err = store.TreeSize(dir)
	}
	return root, err
}

func (w *worker) counter(phase image.Phase, total int64) func(n int64) {
	e := image.Event{Phase: phase, Total: total}
	return func(n int64) {
		e.Bytes += n
		w.progress(e)
	}
}

// layer is the archive of a layer.
type layer struct {
	io.Reader
	sum    hash.Hash
	diffID string
	close  func() error
}

// openLayer opens a layer's archive with any compression.
func openLayer(ctx context.Context, blob, diffID string, told func(int64)) (io.ReadCloser, error) {
	f, err := store.OpenRegular(blob, 0)
	if err != nil {
		return nil, err
	}
	plain, closePlain, err := decompress(&counted{ctx, f, told})
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	sum := sha256.New()
	return &layer{io.TeeReader(plain, sum), sum, diffID, func() error {
		if closePlain != nil {
			closePlain()
		}
		return f.Close()
	}}, nil
}

// Close compares the digest of the data, read to the end, with the configuration.
func (l *layer) Close() error {
	if err := l.close(); err != nil {
		return err
	}
	if got := image.Digest(l.sum.Sum(nil)); got != l.diffID {
		return spec.Errorf(spec.ErrDenied, "a layer is not what the image's configuration says: it is %s, not %s", got, l.diffID)
	}
	return nil
}

// Beginnings of compressed files.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// maxWindow bounds a decompressor's memory, in bytes.
const maxWindow = 128 << 20

// decompress decompresses a stream whose first bytes show a known format. For other
// streams, done is nil.
func decompress(r io.Reader) (plain io.Reader, done func(), err error) {
	head := make([]byte, len(zstdMagic))
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	r = io.MultiReader(bytes.NewReader(head[:n]), r)
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, fmt.Errorf("decompress: %w", err)
		}
		return z, func() { _ = z.Close() }, nil
	case bytes.Equal(head, zstdMagic):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, fmt.Errorf("decompress: %w", err)
		}
		return z, z.Close, nil
	}
	return r, nil, nil
}

// roomy is a reader that reserves disk space for the data that passes through it.
type roomy struct {
	io.Reader
	room *image.Room
}

func (r *roomy) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if full := r.room.Take(int64(n)); full != nil {
		return n, full
	}
	return n, err
}

// counted is a reader that reports its progress, and ends with its context.
type counted struct {
	ctx  context.Context
	r    io.Reader
	told func(int64)
}

func (c *counted) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(p)
	c.told(int64(n))
	return n, err
}
