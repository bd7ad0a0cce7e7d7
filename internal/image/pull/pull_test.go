package pull

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bench is a state directory without a Docker configuration.
type bench struct {
	state string
	shelf image.Shelf
}

func newBench(t *testing.T) bench {
	t.Helper()
	for _, name := range []string{"DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "HTTP_PROXY", "http_proxy"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	state := filepath.Join(t.TempDir(), "state")
	return bench{state, image.Shelf{Dir: filepath.Join(state, "images"), UID: 1000, GID: 1000}}
}

func (b bench) do(t *testing.T, o image.Order) (image.Result, error) {
	t.Helper()
	o.State, o.UID, o.GID, o.Resolver = b.state, 1000, 1000, "nameserver 10.0.0.1\n"
	return Do(t.Context(), o, func(image.Event) {})
}

// noise returns incompressible text.
func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return string(b)
}

func small(t *testing.T, text string) *imagetest.Image {
	t.Helper()
	return imagetest.New(t, imagetest.Config{Env: []string{"PATH=/bin"}}, imagetest.Layer(t, imagetest.File("text", text)), imagetest.Layer(t, imagetest.File("noise", noise(300_000))))
}

// has reports whether a root contains a text.
func has(t *testing.T, r *image.Root, text string) bool {
	t.Helper()
	b, err := os.ReadFile(r.File())
	must(t, err)
	return bytes.Contains(b, []byte(text))
}

func TestPull(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	other := imagetest.New(t, imagetest.Config{Arch: "s390x"}, imagetest.Layer(t, imagetest.File("text", "other")))
	list := imagetest.List(t, other, small(t, "first"))
	r.Publish("team/tools", "v1", list)
	name := r.Host + "/team/tools:v1"
	got, err := b.do(t, image.Order{Pull: name})
	must(t, err)
	img := got.Images[0]
	if !got.Fresh || img.Name != name || img.List != list.Digest || !has(t, img.Root, "first") || img.Root.Env[0] != "PATH=/bin" {
		t.Errorf("%+v", got)
	}

	// Again: nothing is fetched, nor by its digests or the digest of the list.
	before := len(r.Asked("/blobs/"))
	for _, ref := range []string{name, r.Host + "/team/tools@" + img.Digest, r.Host + "/team/tools@" + list.Digest} {
		got, err = b.do(t, image.Order{Pull: ref})
		if err != nil || got.Fresh || got.Images[0].Digest != img.Digest || len(r.Asked("/blobs/")) != before {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
		parsed, err := image.ParseReference(ref)
		must(t, err)
		if found, err := b.shelf.Find(parsed); err != nil || found.Digest != img.Digest {
			t.Errorf("%s: %+v, %v", ref, found, err)
		}
	}

	// The tag moves. Its old image loses the name, and is removed if it is not used.
	r.Publish("team/tools", "v1", small(t, "second"))
	got, err = b.do(t, image.Order{Pull: name})
	must(t, err)
	if !has(t, got.Images[0].Root, "second") {
		t.Error("the tag did not move")
	}
	r.Close()
	if _, err := b.do(t, image.Order{Pull: name}); err == nil || !strings.Contains(err.Error(), r.Host) || spec.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(b.shelf.Blob(img.Digest)); err != nil {
		t.Error(err)
	}
}

// TestAttested checks that an attestation does not count as an image. If it is the only
// other entry, the image need not name its platform, and can be given a name.
func TestAttested(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	img, about := small(t, "image"), small(t, "about it")
	img.Descriptor.Platform, about.Descriptor.Platform = nil, &image.Platform{OS: "unknown", Architecture: "unknown"}
	about.Descriptor.Annotations = map[string]string{"vnd.docker.reference.type": "attestation-manifest"}
	list := imagetest.List(t, img, about)
	r.Publish("tools", "v1", list)
	got, err := b.do(t, image.Order{Pull: r.Host + "/tools:v1"})
	if err != nil || got.Images[0].Digest != img.Descriptor.Digest {
		t.Errorf("pulled: %+v, %v", got, err)
	}
	dir := t.TempDir()
	list.Layout(t, dir, "")
	must(t, os.WriteFile(filepath.Join(dir, "index.json"), list.Blobs[list.Descriptor.Digest], 0o600))
	got, err = b.do(t, image.Order{Load: dir, Name: "mine:v1"})
	if err != nil || len(got.Images) != 1 || got.Images[0].Name != "docker.io/library/mine:v1" || got.Images[0].Digest != img.Descriptor.Digest {
		t.Errorf("loaded: %+v, %v", got, err)
	}
	second := small(t, "second")
	second.Descriptor.Platform = nil
	r.Publish("two", "v1", imagetest.List(t, img, second, about))
	if _, err = b.do(t, image.Order{Pull: r.Host + "/two:v1"}); !errors.Is(err, spec.ErrNotFound) || !strings.Contains(err.Error(), "a list of 2 images, none of which names") {
		t.Errorf("two that say nothing: %v", err)
	}
}

func TestRefused(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	good := small(t, "good")
	r.Publish("good", "v1", good)
	r.Publish("other", "v1", imagetest.New(t, imagetest.Config{Arch: "s390x"}, imagetest.Layer(t)))
	r.Publish("others", "v1", imagetest.List(t, imagetest.New(t, imagetest.Config{Arch: "s390x"}, imagetest.Layer(t))))
	r.Publish("hostile", "v1", imagetest.New(t, imagetest.Config{}, imagetest.Layer(t, imagetest.File("../../evil", "x"))))
	lying := small(t, "lies")
	lying.Manifest.Config = good.Manifest.Config // it has other layers
	lying = relist(t, lying, good)
	r.Publish("lying", "v1", lying)
	both := &imagetest.Image{Blobs: map[string][]byte{}}
	both.Descriptor = add(both, fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[],"layers":[{"digest":%q,"size":1}],"config":{}}`, good.Digest))
	r.Publish("both", "v1", both)
	huge := &imagetest.Image{Blobs: map[string][]byte{}}
	huge.Descriptor = add(huge, fmt.Appendf(nil, `{"schemaVersion":2,"config":{"digest":%q,"size":1},"layers":[{"digest":%q,"size":%d},{"digest":%q,"size":1}]}`, good.Digest, good.Digest, int64(maxBlobs), good.Digest))
	r.Publish("huge", "v1", huge)
	old := &imagetest.Image{Blobs: map[string][]byte{}}
	old.Descriptor = add(old, []byte(`{"schemaVersion":1,"fsLayers":[{"blobSum":"sha256:0"}]}`))
	r.Publish("old", "v1", old)
	for ref, want := range map[string]struct {
		class error
		text  string
	}{
		"missing:v1":                             {spec.ErrNotFound, "has no missing:v1"},
		"other:v1":                               {spec.ErrNotFound, "linux/s390x"},
		"others:v1":                              {spec.ErrNotFound, "linux/s390x"},
		"hostile:v1":                             {spec.ErrDenied, "leads out"},
		"lying:v1":                               {spec.ErrDenied, "is not what the image's configuration says"},
		"both:v1":                                {spec.ErrDenied, "both an image and a list"},
		"huge:v1":                                {spec.ErrDenied, "64 GiB"},
		"old:v1":                                 {spec.ErrDenied, "schema 1"},
		"good@sha256:" + strings.Repeat("0", 64): {spec.ErrNotFound, "has no good@sha256:"},
	} {
		got, err := b.do(t, image.Order{Pull: r.Host + "/" + ref})
		if !errors.Is(err, want.class) || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
	}
	roots, _ := os.ReadDir(filepath.Join(b.shelf.Dir, "roots"))
	if list, err := b.shelf.List(); err != nil || len(list) != 0 || len(roots) != 0 {
		t.Errorf("%v, %v is left, %v", list, roots, err)
	}
	r.Tamper = true
	if _, err := b.do(t, image.Order{Pull: r.Host + "/good:v1"}); !errors.Is(err, spec.ErrDenied) || !strings.Contains(err.Error(), "digest") {
		t.Errorf("%v", err)
	}
	parts, _ := filepath.Glob(filepath.Join(b.shelf.Dir, "blobs", "sha256", ".part-*"))
	if len(parts) != 0 {
		t.Errorf("%v is left", parts)
	}
	r.Tamper = false
	lacking := small(t, "lacking")
	delete(lacking.Blobs, lacking.Manifest.Layers[0].Digest)
	r.Publish("lacking", "v1", lacking)
	if _, err := b.do(t, image.Order{Pull: r.Host + "/lacking:v1"}); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if parts, err := b.shelf.Parts(); err != nil || len(parts) != 0 {
		t.Errorf("%v is left, of which nothing came, %v", parts, err)
	}
	if _, err := b.do(t, image.Order{Pull: r.Host + "/good:v1"}); err != nil {
		t.Errorf("%v", err)
	}
}

func add(i *imagetest.Image, text []byte) image.Descriptor {
	d := describe("application/vnd.docker.distribution.manifest.v1+json", text)
	i.Blobs[d.Digest] = text
	return d
}

// relist makes an image with a changed manifest.
func relist(t *testing.T, i, more *imagetest.Image) *imagetest.Image {
	t.Helper()
	maps.Copy(i.Blobs, more.Blobs)
	i.Manifest.Layers[0] = i.Manifest.Layers[1]
	text := fmt.Appendf(nil, `{"schemaVersion":2,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[{"digest":%q,"size":%d},{"digest":%q,"size":%d}]}`,
		i.Manifest.Config.MediaType, i.Manifest.Config.Digest, i.Manifest.Config.Size,
		i.Manifest.Layers[0].Digest, i.Manifest.Layers[0].Size, i.Manifest.Layers[1].Digest, i.Manifest.Layers[1].Size)
	i.Descriptor = describe(image.TypeManifest, text)
	i.Blobs[i.Digest] = text
	return i
}

// TestResume checks that a broken download is resumed, in the same pull and in a later one.
func TestResume(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	i := small(t, "resumed")
	r.Publish("tools", "v1", i)
	r.Break = 1000
	_, err := b.do(t, image.Order{Pull: r.Host + "/tools:v1"})
	must(t, err)
	if len(r.Asked("bytes=1000-")) != 1 {
		t.Errorf("%v", r.Asked("/blobs/"))
	}

	big := i.Manifest.Layers[1]
	must(t, os.Remove(b.shelf.Blob(big.Digest)))
	must(t, os.WriteFile(b.shelf.Part(big.Digest), i.Blobs[big.Digest][:2000], 0o600))
	_, err = b.do(t, image.Order{Pull: r.Host + "/tools:v1"})
	must(t, err)
	if len(r.Asked("bytes=2000-")) != 1 {
		t.Errorf("%v", r.Asked("/blobs/"))
	}

	// The partial file is wrong: the blob is fetched whole.
	must(t, os.Remove(b.shelf.Blob(big.Digest)))
	must(t, os.WriteFile(b.shelf.Part(big.Digest), []byte(strings.Repeat("x", 3000)), 0o600))
	_, err = b.do(t, image.Order{Pull: r.Host + "/tools:v1"})
	must(t, err)
	if got, err := os.ReadFile(b.shelf.Blob(big.Digest)); err != nil || !bytes.Equal(got, i.Blobs[big.Digest]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestTogether checks that two pulls at once fetch each blob once.
func TestTogether(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	i := small(t, "together")
	r.Publish("tools", "v1", i)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := b.do(t, image.Order{Pull: r.Host + "/tools:v1"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(r.Asked("/blobs/")); n != 3 {
		t.Errorf("%d blobs were asked for", n)
	}
}

func TestGivenUp(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	r.Publish("tools", "v1", small(t, "x"))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Do(ctx, image.Order{State: b.state, Pull: r.Host + "/tools:v1", UID: 1, GID: 1}, func(e image.Event) {
		if e.Phase == image.Unpacking {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if roots, _ := os.ReadDir(filepath.Join(b.shelf.Dir, "roots")); len(roots) != 0 {
		t.Errorf("%v is left", roots)
	}
}

// TestLogin checks that the login for a registry comes from Docker's configuration. If that cannot be
// read, the registry is not asked anonymously.
func TestLogin(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	r.User, r.Password, r.Identity = "me", "secret", "renewed"
	r.Publish("private", "v1", small(t, "private"))
	pull := func() error {
		_, err := b.do(t, image.Order{Pull: r.Host + "/private:v1"})
		return err
	}
	if err := pull(); !errors.Is(err, spec.ErrDenied) || !strings.Contains(spec.Hint(err), "docker login") {
		t.Errorf("%v", err)
	}
	helpers := t.TempDir()
	for name, script := range map[string]string{
		"ours":  `read host; test "$host" = ` + r.Host + ` && echo '{"ServerURL":"x","Username":"me","Secret":"secret"}'`,
		"token": `echo '{"Username":"<token>","Secret":"renewed"}'`,
		"none":  `echo credentials not found in native keychain; exit 1`,
		"bad":   `echo locked >&2; exit 1`,
	} {
		must(t, os.WriteFile(filepath.Join(helpers, "docker-credential-"+name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	t.Setenv("PATH", helpers+":"+os.Getenv("PATH"))
	const docker = "$HOME/.docker/config.json"
	auths := func(user, password string) string {
		return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Host, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	other := t.TempDir()
	for _, c := range []struct {
		name   string
		env    [2]string
		files  map[string]string
		unsaid string // part of the error if the login cannot be found out; "-" if the registry refuses it
	}{
		{name: "auths", files: map[string]string{docker: auths("me", "secret")}},
		{name: "a wrong password", files: map[string]string{docker: auths("me", "other")}, unsaid: "-"},
		{name: "a user and a password", files: map[string]string{docker: fmt.Sprintf(`{"auths":{"https://%s":{"username":"me","password":"secret"}}}`, r.Host)}},
		{name: "an identity token", files: map[string]string{docker: fmt.Sprintf(`{"auths":{%q:{"auth":"bWU6","identitytoken":"renewed"}}}`, r.Host)}},
		{name: "another identity token", files: map[string]string{docker: fmt.Sprintf(`{"auths":{%q:{"identitytoken":"old"}}}`, r.Host)}, unsaid: "-"},
		{name: "a token of the registry", files: map[string]string{docker: fmt.Sprintf(`{"auths":{%q:{"registrytoken":"token-of-the-registry"}}}`, r.Host)}},
		{name: "a helper", files: map[string]string{docker: fmt.Sprintf(`{"credHelpers":{%q:"ours"}}`, r.Host)}},
		{name: "a store", files: map[string]string{docker: fmt.Sprintf(`{"auths":{%q:{}},"credsStore":"ours"}`, r.Host)}},
		{name: "a store with tokens", files: map[string]string{docker: `{"credsStore":"token"}`}},
		{name: "a helper before the store", files: map[string]string{docker: fmt.Sprintf(`{"credHelpers":{%q:"ours"},"credsStore":"bad"}`, r.Host)}},
		{name: "a helper of others", files: map[string]string{docker: `{"credHelpers":{"example.com":"bad"},"credsStore":"ours"}`}},
		{name: "a store without it", files: map[string]string{docker: `{"credsStore":"none"}`}, unsaid: "-"},
		{name: "no helper", files: map[string]string{docker: fmt.Sprintf(`{"credHelpers":{%q:"missing"}}`, r.Host)}, unsaid: "docker-credential-missing"},
		{name: "a store that fails", files: map[string]string{docker: `{"credsStore":"bad"}`}, unsaid: "locked"},
		{name: "a helper elsewhere", files: map[string]string{docker: `{"credsStore":"../ours"}`}, unsaid: "a program cannot have this name"},
		{name: "no configuration", files: map[string]string{docker: `{"auths":`}, unsaid: docker},
		{name: "DOCKER_CONFIG", env: [2]string{"DOCKER_CONFIG", other}, files: map[string]string{other + "/config.json": auths("me", "secret"), docker: auths("me", "other")}},
		{name: "REGISTRY_AUTH_FILE", env: [2]string{"REGISTRY_AUTH_FILE", other + "/podman.json"}, files: map[string]string{other + "/podman.json": auths("me", "secret")}},
		{name: "podman", env: [2]string{"XDG_RUNTIME_DIR", other}, files: map[string]string{other + "/containers/auth.json": auths("me", "secret")}},
		{name: "podman's, kept", files: map[string]string{"$HOME/.config/containers/auth.json": auths("me", "secret")}},
		{name: "docker before podman", files: map[string]string{docker: auths("me", "secret"), "$HOME/.config/containers/auth.json": auths("me", "other")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"} {
				t.Setenv(name, "")
			}
			if c.env[0] != "" {
				t.Setenv(c.env[0], c.env[1])
			}
			for path, text := range c.files {
				path = os.ExpandEnv(path)
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must(t, os.WriteFile(path, []byte(text), 0o600))
				t.Cleanup(func() { os.Remove(path) })
			}
			before := len(r.Asked(""))
			err := pull()
			switch asked := r.Asked("")[before:]; {
			case c.unsaid == "":
				must(t, err)
				if len(asked) == 0 {
					t.Error("nobody was asked")
				}
			case c.unsaid == "-":
				if !errors.Is(err, spec.ErrDenied) || len(asked) == 0 {
					t.Errorf("%v, asked %v", err, asked)
				}
			case err == nil || !strings.Contains(err.Error(), os.ExpandEnv(c.unsaid)) || len(asked) != 0:
				t.Errorf("%v, asked %v", err, asked)
			}
		})
	}
}

// TestEncrypted checks that only a registry on this machine is contacted without TLS.
func TestEncrypted(t *testing.T) {
	for host, ok := range map[string]bool{"localhost": true, "127.3.2.1": true, "[::1]": true, "10.0.0.1": false, "192.168.1.1": false, "registry.local": false, "0.0.0.0": false} {
		if loopback(strings.Trim(host, "[]")) != ok {
			t.Errorf("%s: %v", host, !ok)
		}
	}
}

func TestLoad(t *testing.T) {
	i := small(t, "loaded")
	for name, write := range map[string]func(t *testing.T, at string){
		"layout":      func(t *testing.T, at string) { i.Layout(t, at, "docker.io/library/tools:v1") },
		"docker save": func(t *testing.T, at string) { i.Save(t, at, "tools:v1") },
		"gzip": func(t *testing.T, at string) {
			i.Save(t, at, "tools:v1")
			repack(t, at, func(b []byte) []byte {
				var out bytes.Buffer
				w := gzip.NewWriter(&out)
				_, err := w.Write(b)
				must(t, errors.Join(err, w.Close()))
				return out.Bytes()
			})
		},
		"zstd": func(t *testing.T, at string) {
			i.Save(t, at, "tools:v1")
			repack(t, at, func(b []byte) []byte {
				w, err := zstd.NewWriter(nil)
				must(t, err)
				return w.EncodeAll(b, nil)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			at := filepath.Join(t.TempDir(), "image")
			write(t, at)
			got, err := b.do(t, image.Order{Load: at})
			must(t, err)
			if len(got.Images) != 1 || got.Images[0].Name != "docker.io/library/tools:v1" || !has(t, got.Images[0].Root, "loaded") {
				t.Errorf("%+v", got)
			}
			got, err = b.do(t, image.Order{Load: at, Name: "mine"})
			if err != nil || got.Images[0].Name != "docker.io/library/mine:latest" {
				t.Errorf("%+v, %v", got, err)
			}
			// Its root is lost, or was made for other ids: it is rebuilt offline.
			must(t, os.RemoveAll(got.Images[0].Root.Dir))
			got, err = b.do(t, image.Order{Build: got.Images[0].Digest})
			if err != nil || !has(t, got.Images[0].Root, "loaded") {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func repack(t *testing.T, at string, pack func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(at)
	must(t, err)
	must(t, os.WriteFile(at, pack(b), 0o600))
}

// TestLoadRefused checks that a file that is not an image, or is incomplete, is refused and
// leaves nothing behind.
func TestLoadRefused(t *testing.T) {
	i := small(t, "x")
	layout := func(t *testing.T, change func(dir string)) string {
		dir := filepath.Join(t.TempDir(), "layout")
		i.Layout(t, dir, "tools:v1")
		change(dir)
		return dir
	}
	blob := func(dir string) string {
		return filepath.Join(dir, "blobs", "sha256", image.Hex(i.Manifest.Layers[0].Digest))
	}
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, i.Blobs[i.Manifest.Layers[0].Digest], 0o600))
	many := filepath.Join(t.TempDir(), "many")
	i.Save(t, many, slices.Repeat([]string{"tools:v1"}, maxLoaded+1)...)
	for name, at := range map[string]string{
		"nothing":     filepath.Join(t.TempDir(), "nothing"),
		"no archive":  layout(t, func(dir string) { must(t, os.WriteFile(dir+"/x", []byte("text"), 0o600)) }) + "/x",
		"empty":       layout(t, func(dir string) { must(t, os.WriteFile(dir+"/index.json", []byte(`{"manifests":[]}`), 0o600)) }),
		"no index":    layout(t, func(dir string) { must(t, os.Remove(dir+"/index.json")) }),
		"no blob":     layout(t, func(dir string) { must(t, os.Remove(blob(dir))) }),
		"other blob":  layout(t, func(dir string) { must(t, os.WriteFile(blob(dir), []byte("evil"), 0o600)) }),
		"longer blob": layout(t, func(dir string) { must(t, os.Truncate(blob(dir), 5000)) }),
		"link out":    layout(t, func(dir string) { must(t, os.Remove(blob(dir))); must(t, os.Symlink(secret, blob(dir))) }),
		"bad digest": layout(t, func(dir string) {
			must(t, os.WriteFile(dir+"/index.json", []byte(`{"manifests":[{"digest":"sha256:../../../etc/passwd"}]}`), 0o600))
		}),
		"many images": layout(t, func(dir string) {
			index, err := os.ReadFile(dir + "/index.json")
			must(t, err)
			head, rest, _ := strings.Cut(string(index), `"manifests":[`)
			one, tail, _ := strings.Cut(rest, "]")
			must(t, os.WriteFile(dir+"/index.json", []byte(head+`"manifests":[`+strings.Repeat(one+",", maxLoaded)+one+"]"+tail), 0o600))
		}),
		"many names": many,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if got, err := b.do(t, image.Order{Load: at}); err == nil {
				t.Errorf("%+v", got)
			}
			if list, err := b.shelf.List(); err != nil || len(list) != 0 {
				t.Errorf("%v, %v", list, err)
			}
			if parts, err := b.shelf.Parts(); err != nil || len(parts) != 0 {
				t.Errorf("%v is left, which nobody can go on with, %v", parts, err)
			}
		})
	}
}

// loadAs loads an image from a file that names it, or without a name.
func (b bench) loadAs(t *testing.T, i *imagetest.Image, name string, o image.Order) (image.Image, error) {
	t.Helper()
	o.Load = filepath.Join(t.TempDir(), "image")
	i.Save(t, o.Load, name)
	got, err := b.do(t, o)
	if err != nil {
		return image.Image{}, err
	}
	return got.Images[0], nil
}

// TestNames checks that an image loaded without a name gets none, even if its file names one. An image
// must not be named with another image's digest. An image that lost its name to another one is kept.
func TestNames(t *testing.T) {
	b := newBench(t)
	load := func(i *imagetest.Image, name string, nameless bool) image.Image {
		t.Helper()
		img, err := b.loadAs(t, i, name, image.Order{Nameless: nameless})
		must(t, err)
		return img
	}
	if used := load(small(t, "used"), "tools:v1", true); used.Name != "" || used.Claimed {
		t.Errorf("%+v", used)
	}
	many := filepath.Join(t.TempDir(), "many")
	small(t, "used").Save(t, many, "ubuntu:24.04", "ghcr.io/acme/prod:v1")
	if got, err := b.do(t, image.Order{Load: many, Nameless: true}); err != nil || len(got.Images) != 1 || got.Images[0].Name != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if pinned := load(small(t, "pinned"), "tools@sha256:"+strings.Repeat("0", 64), false); pinned.Name != "" {
		t.Errorf("%q", pinned.Name)
	}
	first := load(small(t, "first"), "tools:v1", false)
	second := load(small(t, "second"), "tools:v1", false)
	list, err := b.shelf.List()
	must(t, err)
	named := map[string]string{}
	for _, i := range list {
		named[i.Digest] = i.Name
	}
	if name, there := named[first.Digest]; len(list) != 4 || !there || name != "" || named[second.Digest] != first.Name {
		t.Errorf("%v", named)
	}
}

// TestClaims checks that the name in a file does not displace an image that got the name
// from elsewhere; then nothing of the file is stored. The user may give that name.
func TestClaims(t *testing.T) {
	b, reg := newBench(t), imagetest.NewRegistry(t)
	reg.Publish("team/tools", "v1", small(t, "real"))
	name := reg.Host + "/team/tools:v1"
	evil := small(t, "evil")
	if img, err := b.loadAs(t, evil, name, image.Order{}); err != nil || !img.Claimed || img.Name != name {
		t.Errorf("%+v, %v", img, err)
	}
	got, err := b.do(t, image.Order{Pull: name})
	if err != nil || got.Images[0].Claimed {
		t.Fatalf("%+v, %v", got, err)
	}
	fetched := got.Images[0]
	again, _ := archiveOf(t, b, image.Export{Digest: fetched.Digest, Name: name})
	evils := filepath.Join(t.TempDir(), "evils")
	if got, err := b.do(t, image.Order{Load: again}); err != nil || got.Images[0].Digest != fetched.Digest || got.Images[0].Claimed {
		t.Errorf("it is the very image: %+v, %v", got, err)
	}
	evil.Save(t, evils, "other:v1", name)
	if got, err := b.do(t, image.Order{Load: evils}); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%+v, %v", got, err)
	}
	ref, err := image.ParseReference(name)
	must(t, err)
	if img, err := b.shelf.Find(ref); err != nil || img.Digest != fetched.Digest {
		t.Errorf("%+v, %v", img, err)
	}
	ref, err = image.ParseReference("other:v1")
	must(t, err)
	if img, err := b.shelf.Find(ref); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("%+v, %v", img, err)
	}
	if img, err := b.loadAs(t, evil, "x:v1", image.Order{Name: name}); err != nil || img.Name != name || img.Claimed {
		t.Errorf("%+v, %v", img, err)
	}
}

// TestLoadPipe checks that a pipe in place of a file does not block the load.
func TestLoadPipe(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(dir, "index.json"), 0o600))
	if got, err := newBench(t).do(t, image.Order{Load: dir}); err == nil {
		t.Errorf("%+v", got)
	}
}

// TestSweep checks that unreferenced files are removed, and that images in use stay.
func TestSweep(t *testing.T) {
	b := newBench(t)
	kept, used, lost := small(t, "kept"), small(t, "used"), small(t, "lost")
	var digests []string
	for n, i := range []*imagetest.Image{kept, used, lost} {
		at := filepath.Join(t.TempDir(), "image")
		i.Save(t, at, fmt.Sprintf("image:%d", n))
		got, err := b.do(t, image.Order{Load: at})
		must(t, err)
		digests = append(digests, got.Images[0].Digest)
	}
	for n := 1; n <= 2; n++ {
		ref, err := image.ParseReference(fmt.Sprintf("image:%d", n))
		must(t, err)
		img, err := b.shelf.Find(ref)
		must(t, err)
		must(t, b.shelf.Forget(img))
	}
	half, empty, whole := image.Digest(make([]byte, 32)), image.Digest(append(make([]byte, 31), 1)), digests[0]
	must(t, errors.Join(
		os.WriteFile(b.shelf.Part(half), []byte("x"), 0o600), os.WriteFile(b.shelf.Part(empty), nil, 0o600), os.WriteFile(b.shelf.Part(whole), []byte("x"), 0o600)))
	freed, err := b.shelf.Sweep(map[string]bool{digests[1]: true})
	if err != nil || freed == 0 {
		t.Errorf("%d, %v", freed, err)
	}
	for n, there := range []bool{true, true, false} {
		_, rootErr := b.shelf.Root(digests[n])
		_, blobErr := os.Stat(b.shelf.Blob(digests[n]))
		if (rootErr == nil) != there || (blobErr == nil) != there {
			t.Errorf("%d: %v, %v", n, rootErr, blobErr)
		}
	}
	if parts, err := b.shelf.Parts(); err != nil || len(parts) != 1 || parts[0] != b.shelf.Part(half) {
		t.Errorf("of downloads %v are left, %v", parts, err)
	}
	if freed, err := b.shelf.SweepParts(); freed != 1 || err != nil {
		t.Errorf("%d, %v", freed, err)
	}
	if parts, err := b.shelf.Parts(); err != nil || len(parts) != 0 {
		t.Errorf("%v is left, %v", parts, err)
	}
	if _, err := os.Stat(b.shelf.Blob(digests[0])); err != nil {
		t.Error(err)
	}
}
