package pull

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
)

// TestReady checks that the base image of a build has the image's own ids, and nothing else of its
// configuration.
func TestReady(t *testing.T) {
	b, base, _ := based(t)
	ready := func(digest string) image.Image {
		t.Helper()
		got, err := b.do(t, image.Order{Plain: digest})
		must(t, err)
		return got.Images[0]
	}
	plain := ready(base.Digest)
	if plain.Digest == base.Digest || plain.Root.Account.Name != "root" || plain.Root.Account.UID != 0 || !has(t, plain.Root, "node:x:1200:1300:") {
		t.Errorf("%+v, of %+v", plain.Root, base.Root)
	}
	if again := ready(base.Digest); again.Digest != plain.Digest {
		t.Errorf("%s is not %s", again.Digest, plain.Digest)
	}
	if same := ready(plain.Digest); same.Digest != plain.Digest {
		t.Errorf("%s is not %s", same.Digest, plain.Digest)
	}
	empty := ready(image.Scratch)
	if empty.Root.Account.Name != "root" || empty.Digest != ready(image.Scratch).Digest {
		t.Errorf("%+v", empty.Root)
	}
}

// TestCommit checks an image that differs from its base only in its configuration. It has
// the base's layers, and their history.
func TestCommit(t *testing.T) {
	b, base, _ := based(t)
	got, err := b.do(t, image.Order{Plain: base.Digest})
	must(t, err)
	plain := got.Images[0].Digest
	config, err := json.Marshal(map[string]any{
		"architecture": image.Host().Architecture, "os": "linux", "config": map[string]any{"User": "node", "Labels": map[string]string{"k": "v"}},
		"created": "2001-02-03T04:05:06Z", "rootfs": map[string]any{"type": "layers", "diff_ids": []string{}},
		"history": []map[string]any{{"created_by": "base"}, {"created_by": "RUN x"}, {"created_by": "USER node", "empty_layer": true}},
	})
	must(t, err)
	c := image.Commit{Base: plain, Config: config, Made: time.Unix(1_700_000_000, 5), Name: "tools:v1"}
	got, err = b.do(t, image.Order{Commit: &c})
	must(t, err)
	made := got.Images[0]
	if made.Name != "docker.io/library/tools:v1" || made.Root.Account.Name != "node" || made.Root.Account.ImageUID != 1200 {
		t.Errorf("%+v", made)
	}
	var m image.Manifest
	text, err := (&worker{shelf: b.shelf}).readText(image.Descriptor{Digest: made.Digest}, maxManifest)
	must(t, err)
	must(t, json.Unmarshal(text, &m))
	type step struct {
		Empty   bool `json:"empty_layer"`
		Created string
	}
	var is struct {
		Created string
		RootFS  struct {
			DiffIDs []string `json:"diff_ids"`
		}
		History []step
		Config  struct{ Labels map[string]string }
	}
	text, err = (&worker{shelf: b.shelf}).readText(m.Config, maxConfig)
	must(t, err)
	must(t, json.Unmarshal(text, &is))
	full := slices.DeleteFunc(slices.Clone(is.History), func(h step) bool { return h.Empty })
	if len(m.Layers) != 1 || len(is.RootFS.DiffIDs) != 1 || len(is.History) != 3 || len(full) != 1 || is.Config.Labels["k"] != "v" || is.Created != "2001-02-03T04:05:06Z" {
		t.Errorf("%+v, %+v", m, is)
	}
	if slices.ContainsFunc(is.History, func(h step) bool { return h.Created != is.Created }) {
		t.Errorf("steps are of no time: %+v", is.History)
	}
	c.Name, c.Digest = "tools:v2", made.Digest
	got, err = b.do(t, image.Order{Commit: &c})
	must(t, err)
	if again := got.Images[0]; again.Digest != made.Digest || again.Name != "docker.io/library/tools:v2" {
		t.Errorf("%+v", again)
	}
}
