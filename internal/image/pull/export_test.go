package pull

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/spec"
)

// based returns a shelf with an image whose user has a home, and a home to be saved.
func based(t *testing.T) (b bench, base image.Image, home string) {
	t.Helper()
	b = newBench(t)
	i := imagetest.New(t, imagetest.Config{User: "node", Env: []string{"PATH=/bin"}, Workdir: "/srv", Labels: map[string]string{image.DockerLabel: "true"}},
		imagetest.Layer(t,
			imagetest.File("etc/passwd", "node:x:1200:1300::/home/node:/bin/sh\n"), imagetest.File("etc/group", "node:x:1300:\n"),
			imagetest.Symlink("home", "var/homes"), imagetest.Dir("var/homes/node").Owned(1200, 1300), imagetest.File("var/homes/node/old", "x").Owned(1200, 1300)))
	at := filepath.Join(t.TempDir(), "image")
	i.Save(t, at, "base:v1")
	got, err := b.do(t, image.Order{Load: at})
	must(t, err)
	home = t.TempDir()
	must(t, os.Mkdir(filepath.Join(home, "sub"), 0o750))
	must(t, os.WriteFile(filepath.Join(home, "sub", "file"), []byte("kept at home"), 0o640))
	must(t, os.Link(filepath.Join(home, "sub", "file"), filepath.Join(home, "twin")))
	must(t, os.Symlink("/etc/shadow", filepath.Join(home, "link")))
	when := time.Unix(1_600_000_000, 0)
	for _, name := range []string{"sub/file", "sub", "."} {
		must(t, os.Chtimes(filepath.Join(home, name), when, when))
	}
	if !got.Images[0].Root.Docker {
		t.Error("the label that asks for Docker was not read")
	}
	return b, got.Images[0], home
}

func archiveOf(t *testing.T, b bench, x image.Export) (string, image.Image) {
	t.Helper()
	x.To = filepath.Join(t.TempDir(), "image.tar")
	must(t, os.WriteFile(x.To, nil, 0o600))
	got, err := b.do(t, image.Order{Export: &x})
	must(t, err)
	return x.To, got.Images[0]
}

// TestExport checks that a saved sandbox becomes an image: loading it gives the same tree,
// and writing it again gives the same bytes.
func TestExport(t *testing.T) {
	b, base, home := based(t)
	x := image.Export{Digest: base.Digest, Home: home, Made: time.Unix(1_700_000_000, 5), Name: "docker.io/team/tools:v2"}
	at, img := archiveOf(t, b, x)
	again, _ := archiveOf(t, b, x)
	first, err := os.ReadFile(at)
	must(t, err)
	if second, err := os.ReadFile(again); err != nil || !bytes.Equal(first, second) {
		t.Errorf("it differs from itself, %v", err)
	}
	other := newBench(t)
	got, err := other.do(t, image.Order{Load: at})
	must(t, err)
	loaded := got.Images[0]
	if loaded.Digest != img.Digest || loaded.Name != x.Name || loaded.Root.Account.Name != "node" || loaded.Root.Workdir != "/srv" || !loaded.Root.Docker || loaded.Root.Env[0] != "PATH=/bin" {
		t.Errorf("%+v is not %+v", loaded, img)
	}
	if names := list(t, loaded.Root.Home()); !slices.Equal(names, []string{"link -> /etc/shadow", "sub/ 750", "sub/file 640 kept at home", "twin => sub/file"}) {
		t.Errorf("the home has %q", names)
	}
	// Docker versions that do not know layouts can read it, too.
	docker := newBench(t)
	dir := t.TempDir()
	unpack(t, at, dir)
	must(t, os.Remove(filepath.Join(dir, "index.json")))
	got, err = docker.do(t, image.Order{Load: repacked(t, dir)})
	if err != nil || got.Images[0].Name != x.Name || !slices.Equal(list(t, got.Images[0].Root.Home()), list(t, loaded.Root.Home())) {
		t.Errorf("%+v, %v", got, err)
	}
	// The ids are those of the image, and a link on the way to the home is still a link.
	layer := lastLayer(t, dir)
	if h := layer["var/homes/node/sub/file"]; h == nil || h.Uid != 1200 || h.Gid != 1300 || h.ModTime.Unix() != 1_600_000_000 {
		t.Errorf("%+v", h)
	}
	if layer["var/homes/node/.wh..wh..opq"] == nil || layer["home"] != nil || layer["home/"] != nil {
		t.Errorf("%v", layer)
	}
}

// TestExportImage checks that an image on the shelf is written unchanged.
func TestExportImage(t *testing.T) {
	b, base, _ := based(t)
	at, img := archiveOf(t, b, image.Export{Digest: base.Digest, Name: base.Name})
	got, err := newBench(t).do(t, image.Order{Load: at})
	if err != nil || img.Digest != base.Digest || got.Images[0].Digest != base.Digest || got.Images[0].Name != base.Name {
		t.Errorf("%+v, %v", got, err)
	}
	for _, x := range []image.Export{
		{Digest: base.Digest, Name: "a b"}, {Digest: base.Digest, Name: "a@" + base.Digest}, {Digest: "sha256:..", Name: "a"}, {Digest: image.Digest(make([]byte, 32)), Name: "a"},
	} {
		if got, err := b.do(t, image.Order{Export: &x}); err == nil {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// TestPush checks that a pushed image can be pulled again, and that its blobs are sent
// once.
func TestPush(t *testing.T) {
	b, base, home := based(t)
	r := imagetest.NewRegistry(t)
	r.User, r.Password = "me", "secret"
	x := image.Export{Digest: base.Digest, Home: home, Made: time.Unix(1_700_000_000, 0), Name: r.Host + "/team/tools:v2", Mount: r.Host + "/team/base:v1", Push: true}
	push := func() (image.Image, error) {
		got, err := b.do(t, image.Order{Export: &x})
		if err != nil {
			return image.Image{}, err
		}
		return got.Images[0], nil
	}
	if _, err := push(); !errors.Is(err, spec.ErrDenied) || !strings.Contains(spec.Hint(err), "docker login") {
		t.Errorf("%v", err)
	}
	config := filepath.Join(os.Getenv("HOME"), ".docker", "config.json")
	must(t, os.MkdirAll(filepath.Dir(config), 0o700))
	must(t, os.WriteFile(config, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, r.Host, base64.StdEncoding.EncodeToString([]byte("me:secret"))), 0o600))
	r.ReadOnly = true
	if _, err := push(); !errors.Is(err, spec.ErrDenied) || !strings.Contains(err.Error(), "team/tools") {
		t.Errorf("%v", err)
	}
	r.ReadOnly, r.Busy = false, 1
	img, err := push()
	must(t, err)
	if n := len(r.Asked("PUT ")); n != 5 { // two layers, one of them twice, the configuration, the manifest
		t.Errorf("%q", r.Asked("PUT "))
	}
	if asked := r.Asked("/token"); !strings.Contains(asked[len(asked)-1], "team%2Ftools%3Apull%2Cpush") || !strings.Contains(asked[len(asked)-1], "team%2Fbase%3Apull") {
		t.Errorf("%q", asked)
	}
	before := len(r.Asked("PUT "))
	_, err = push()
	must(t, err)
	if put := r.Asked("PUT ")[before:]; len(put) != 1 || !strings.Contains(put[0], "/manifests/v2") {
		t.Errorf("again %q", put)
	}
	r.Away()
	before = len(r.Asked("PUT "))
	_, err = push()
	must(t, err)
	if put, mounted := r.Asked("PUT ")[before:], r.Asked("from=team%2Fbase"); len(put) != 1 || len(mounted) < 3 {
		t.Errorf("what another repository has: %q, %q", put, mounted)
	}
	other := newBench(t)
	must(t, os.MkdirAll(filepath.Join(os.Getenv("HOME"), ".docker"), 0o700))
	must(t, os.WriteFile(filepath.Join(os.Getenv("HOME"), ".docker", "config.json"), fmt.Appendf(nil, `{"auths":{%q:{"username":"me","password":"secret"}}}`, r.Host), 0o600))
	got, err := other.do(t, image.Order{Pull: x.Name})
	if err != nil || got.Images[0].Digest != img.Digest {
		t.Fatalf("%+v is not %+v, %v", got, img, err)
	}
	if names := list(t, got.Images[0].Root.Home()); len(names) != 4 || names[2] != "sub/file 640 kept at home" {
		t.Errorf("%q", names)
	}
}

// TestExtendConfig checks that configurations with and without a history stay complete.
func TestExtendConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{"os":"linux","x":{"kept":1},"rootfs":{"type":"layers","diff_ids":["a"]},"history":[{"created_by":"first"}]}`: `{"created":"2023-11-14T22:13:20Z","history":[{"created_by":"first"},{"created":"2023-11-14T22:13:20Z","created_by":"bothy save"}],"os":"linux","rootfs":{"type":"layers","diff_ids":["a","b"]},"x":{"kept":1}}`,
		`{"rootfs":{"diff_ids":["a"]},"created":"2001-01-01T00:00:00Z"}`:                                               `{"created":"2023-11-14T22:13:20Z","rootfs":{"type":"layers","diff_ids":["a","b"]}}`,
	} {
		if got, err := extendConfig([]byte(text), "b", time.Unix(1_700_000_000, 5)); err != nil || string(got) != want {
			t.Errorf("%s\n%s, %v", got, want, err)
		}
	}
	if got, err := extendConfig([]byte(`{"history":7}`), "b", time.Now()); err == nil {
		t.Errorf("%s", got)
	}
}

// list lists the names in an archive.
func list(t *testing.T, path string) (names []string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return names
		}
		must(t, err)
		text, err := io.ReadAll(tr)
		must(t, err)
		switch h.Typeflag {
		case tar.TypeSymlink:
			names = append(names, h.Name+" -> "+h.Linkname)
		case tar.TypeLink:
			names = append(names, h.Name+" => "+h.Linkname)
		default:
			names = append(names, strings.TrimSpace(fmt.Sprintf("%s %o %s", h.Name, h.Mode, text)))
		}
	}
}

func unpack(t *testing.T, path, dir string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return
		}
		must(t, err)
		to := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			must(t, os.MkdirAll(to, 0o700))
			continue
		}
		b, err := io.ReadAll(tr)
		must(t, err)
		must(t, os.MkdirAll(filepath.Dir(to), 0o700))
		must(t, os.WriteFile(to, b, 0o600))
	}
}

// repacked is an archive of the files in a directory.
func repacked(t *testing.T, dir string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	must(t, w.AddFS(os.DirFS(dir)))
	must(t, w.Close())
	path := filepath.Join(t.TempDir(), "again.tar")
	must(t, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

// lastLayer returns the entries of the last layer in an unpacked archive.
func lastLayer(t *testing.T, dir string) map[string]*tar.Header {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	must(t, err)
	var images []dockerImage
	must(t, json.Unmarshal(text, &images))
	f, err := os.Open(filepath.Join(dir, images[0].Layers[len(images[0].Layers)-1]))
	must(t, err)
	defer f.Close()
	r, done, err := decompress(f)
	must(t, err)
	defer done()
	entries := map[string]*tar.Header{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return entries
		}
		must(t, err)
		entries[h.Name] = h
	}
}
