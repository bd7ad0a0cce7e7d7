// Package imagetest makes container images for tests, and runs registries with them.
package imagetest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
)

// Config is the configuration of an image.
type Config struct {
	User    string
	Env     []string
	Workdir string
	Arch    string // default: that of this machine
	Labels  map[string]string
}

// Image is an image with its blobs.
type Image struct {
	image.Descriptor
	Manifest image.Manifest
	Blobs    map[string][]byte // by their digests
	Plain    [][]byte          // its layers, not compressed
}

// New makes an image from layers, which are tar archives.
func New(t testing.TB, c Config, layers ...[]byte) *Image {
	t.Helper()
	i := &Image{Blobs: map[string][]byte{}, Plain: layers}
	c.Arch = cmp.Or(c.Arch, runtime.GOARCH)
	labels := map[string]string{"dev.gvisor.spec.rootfs.source": "/etc/shadow"}
	maps.Copy(labels, c.Labels)
	var diffIDs []string
	for _, plain := range layers {
		diffIDs = append(diffIDs, image.DigestOf(plain))
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write(plain)
		mustSucceed(t, err)
		mustSucceed(t, w.Close())
		i.Manifest.Layers = append(i.Manifest.Layers, i.addBlob("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes()))
	}
	i.Manifest.SchemaVersion, i.Manifest.MediaType = 2, image.TypeManifest
	i.Manifest.Config = i.addBlob("application/vnd.oci.image.config.v1+json", encode(t, map[string]any{
		"architecture": c.Arch, "os": "linux", "created": "2024-01-02T03:04:05Z",
		"config": map[string]any{"User": c.User, "Env": c.Env, "WorkingDir": c.Workdir, "Labels": labels},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs},
	}))
	i.Descriptor = i.addBlob(image.TypeManifest, encode(t, i.Manifest))
	i.Platform = &image.Platform{OS: "linux", Architecture: c.Arch}
	return i
}

// List makes a list of platforms from images.
func List(t testing.TB, images ...*Image) *Image {
	t.Helper()
	l := &Image{Blobs: map[string][]byte{}}
	index := image.Index{SchemaVersion: 2, MediaType: image.TypeIndex}
	for _, i := range images {
		index.Manifests = append(index.Manifests, i.Descriptor)
		maps.Copy(l.Blobs, i.Blobs)
	}
	l.Descriptor = l.addBlob(image.TypeIndex, encode(t, index))
	return l
}

func (i *Image) addBlob(mediaType string, b []byte) image.Descriptor {
	d := image.Descriptor{MediaType: mediaType, Digest: image.DigestOf(b), Size: int64(len(b))}
	i.Blobs[d.Digest] = b
	return d
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	mustSucceed(t, err)
	return b
}

func mustSucceed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Layout writes an image layout to a directory.
func (i *Image) Layout(t testing.TB, dir, name string) {
	t.Helper()
	mustSucceed(t, os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755))
	for digest, b := range i.Blobs {
		mustSucceed(t, os.WriteFile(filepath.Join(dir, "blobs", "sha256", image.Hex(digest)), b, 0o644))
	}
	d := i.Descriptor
	d.Platform = nil
	if name != "" {
		d.Annotations = map[string]string{image.FullNameKey: name}
	}
	mustSucceed(t, os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644))
	mustSucceed(t, os.WriteFile(filepath.Join(dir, "index.json"), encode(t, image.Index{SchemaVersion: 2, Manifests: []image.Descriptor{d}}), 0o644))
}

// Save writes an image in the format that docker save used before layouts.
func (i *Image) Save(t testing.TB, path string, tags ...string) {
	t.Helper()
	mustSucceed(t, os.WriteFile(path, i.archive(t, tags...), 0o644))
}

func (i *Image) archive(t testing.TB, tags ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(name string, b []byte) {
		mustSucceed(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(b))}))
		_, err := w.Write(b)
		mustSucceed(t, err)
	}
	config := image.Hex(i.Manifest.Config.Digest) + ".json"
	add(config, i.Blobs[i.Manifest.Config.Digest])
	var layers []string
	for n, plain := range i.Plain {
		name := fmt.Sprintf("%s/layer.tar", image.Hex(image.DigestOf(plain)))
		if n > 0 && bytes.Equal(plain, i.Plain[n-1]) {
			name = "again/layer.tar"
		}
		layers = append(layers, name)
		add(name, plain)
	}
	add("manifest.json", encode(t, []map[string]any{{"Config": config, "RepoTags": tags, "Layers": layers}}))
	mustSucceed(t, w.Close())
	return out.Bytes()
}

// Entry is a file of a layer.
type Entry struct {
	tar.Header
	Text string
}

// File, Program, Dir and Symlink make entries.
func File(name, text string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, text}
}

func Program(name, text string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, text}
}

func Dir(name string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
}

func Symlink(name, target string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, ""}
}

// Owned sets the owner of an entry.
func (e Entry) Owned(uid, gid int) Entry {
	e.Uid, e.Gid = uid, gid
	return e
}

// Layer makes an archive.
func Layer(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		e.Size = int64(len(e.Text))
		mustSucceed(t, w.WriteHeader(&e.Header))
		_, err := w.Write([]byte(e.Text))
		mustSucceed(t, err)
	}
	mustSucceed(t, w.Close())
	return out.Bytes()
}
