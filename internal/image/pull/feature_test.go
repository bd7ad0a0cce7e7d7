package pull

import (
	"archive/tar"
	"errors"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/spec"
)

// TestFeature checks that a feature becomes an image with its files in a directory, and that it is found
// by its name.
func TestFeature(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	about := imagetest.File("./"+image.FeatureFile, `{"id": "f"}`)
	r.PublishFeature(t, "features/f", "1", imagetest.Layer(t, imagetest.Dir("./"), about, imagetest.Program("./install.sh", "#!/bin/sh\necho of the feature\n"), imagetest.Symlink("link", "/etc/passwd")))
	name := r.Host + "/features/f:1"
	got, err := b.do(t, image.Order{Feature: name})
	must(t, err)
	img := got.Images[0]
	if img.Name != name {
		t.Errorf("its name is %q", img.Name)
	}
	again, err := b.do(t, image.Order{Feature: name})
	if err != nil || again.Images[0].Digest != img.Digest {
		t.Errorf("the second time it is %+v, %v", again, err)
	}
	for _, text := range []string{"echo of the feature", `{"id": "f"}`} {
		if !has(t, img.Root, text) {
			t.Errorf("%q is not in it", text)
		}
	}
	ref, err := image.ParseReference(name)
	must(t, err)
	if found, err := b.shelf.Find(ref); err != nil || found.Digest != img.Digest {
		t.Errorf("found %+v, %v", found, err)
	}
}

// TestPinnedFeature checks that a pinned feature is found by its own digest, not that of the image made
// from it, even if the same feature exists by its name; and that it stays.
func TestPinnedFeature(t *testing.T) {
	b, r := newBench(t), imagetest.NewRegistry(t)
	archive := imagetest.Layer(t, imagetest.File(image.FeatureFile, `{"id": "f"}`))
	pin := r.PublishFeature(t, "features/f", "1", archive)
	_, err := b.do(t, image.Order{Feature: r.Host + "/features/f:1"})
	must(t, err)
	ref, err := image.ParseReference(r.Host + "/features/f@" + pin)
	must(t, err)
	if found, err := b.shelf.Find(ref); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("before it is fetched: %+v, %v", found, err)
	}
	got, err := b.do(t, image.Order{Feature: ref.String()})
	must(t, err)
	img := got.Images[0]
	if img.Digest == pin || img.List != pin || img.Name != ref.Name() {
		t.Errorf("%+v", img)
	}
	_, err = b.do(t, image.Order{Feature: r.Host + "/features/f:1"})
	must(t, err)
	_, err = b.shelf.Sweep(nil)
	must(t, err)
	if found, err := b.shelf.Find(ref); err != nil || found.Digest != img.Digest || found.Root == nil {
		t.Errorf("found %+v, %v", found, err)
	}
}

func TestFeatureRefused(t *testing.T) {
	about := imagetest.File(image.FeatureFile, `{}`)
	device := imagetest.File("device", "")
	device.Typeflag = tar.TypeChar
	hard := imagetest.File("hard", "")
	hard.Typeflag, hard.Linkname = tar.TypeLink, "../../etc/passwd"
	many := make([]imagetest.Entry, maxFeatureFiles+1)
	for i := range many {
		many[i] = imagetest.File("x", "")
	}
	tests := []struct {
		name    string
		archive []byte
		class   error
		err     string
	}{
		{"one that says nothing", imagetest.Layer(t, imagetest.File("install.sh", "")), spec.ErrUsage, "it is not a feature"},
		{"one that says much", imagetest.Layer(t, imagetest.File(image.FeatureFile, strings.Repeat(" ", maxFeatureText+1))), spec.ErrUsage, "more than 128 KiB"},
		{"one that leads out", imagetest.Layer(t, about, imagetest.File("a/../../x", "")), spec.ErrDenied, "leads out of it"},
		{"a device", imagetest.Layer(t, about, device), spec.ErrDenied, "neither a file nor a directory"},
		{"another name of a file", imagetest.Layer(t, about, hard), spec.ErrDenied, "neither a file nor a directory"},
		{"many files", imagetest.Layer(t, many...), spec.ErrDenied, "more than 10000 files"},
		{"no archive", []byte(strings.Repeat("x", 1024)), spec.ErrDenied, "cannot be used"},
		{"a large one", make([]byte, maxFeature+1), spec.ErrDenied, "more than 16777216"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, r := newBench(t), imagetest.NewRegistry(t)
			r.PublishFeature(t, "f", "1", tt.archive)
			got, err := b.do(t, image.Order{Feature: r.Host + "/f:1"})
			if !errors.Is(err, tt.class) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	t.Run("an image", func(t *testing.T) {
		b, r := newBench(t), imagetest.NewRegistry(t)
		r.Publish("f", "1", small(t, "image"))
		if _, err := b.do(t, image.Order{Feature: r.Host + "/f:1"}); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), "it is not a feature") {
			t.Error(err)
		}
	})
	t.Run("what is not what its digest says", func(t *testing.T) {
		b, r := newBench(t), imagetest.NewRegistry(t)
		r.PublishFeature(t, "f", "1", imagetest.Layer(t, about))
		r.Tamper = true
		if _, err := b.do(t, image.Order{Feature: r.Host + "/f:1"}); !errors.Is(err, spec.ErrDenied) {
			t.Error(err)
		}
	})
}
