package pull

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/spec"
)

// TestDocker checks that an image is taken from Docker once, and again when its name means another
// image.
func TestDocker(t *testing.T) {
	b, d := newBench(t), imagetest.NewDocker(t, t.TempDir())
	take := func(name string) (image.Result, error) {
		return b.do(t, image.Order{Docker: name, Socket: d.Socket})
	}
	saved := func() (n int) {
		for _, path := range d.Asked() {
			if strings.HasSuffix(path, "/get") {
				n++
			}
		}
		return n
	}
	d.Tag("tools:latest", small(t, "first"))
	got, err := take("tools")
	must(t, err)
	first := got.Images[0]
	if len(got.Images) != 1 || !got.Fresh || first.Name != "docker.io/library/tools:latest" || !has(t, first.Root, "first") {
		t.Errorf("%+v", got)
	}
	got, err = take("tools")
	if err != nil || got.Fresh || got.Images[0].Digest != first.Digest || saved() != 1 {
		t.Errorf("again: %+v, %v, saved %d times", got, err, saved())
	}
	d.Tag("tools:latest", small(t, "second"))
	got, err = take("tools")
	must(t, err)
	if !has(t, got.Images[0].Root, "second") || saved() != 2 {
		t.Errorf("built again: %+v, saved %d times", got, saved())
	}

	// The image on the shelf is enough if Docker has none, or is not running.
	second := got.Images[0].Digest
	d.Remove("tools:latest")
	got, err = take("tools")
	if err != nil || got.Images[0].Digest != second || got.Notice != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := take("nobody/has:this"); !errors.Is(err, spec.ErrNotFound) || !strings.Contains(err.Error(), "Docker has none either") {
		t.Error(err)
	}

	// A transfer that breaks off, or does not match its digest, changes nothing.
	d.Tag("tools:latest", small(t, "third"))
	d.Cut = 1000
	if _, err := take("tools"); err == nil {
		t.Error("half an image was taken")
	}
	d.Cut = 0
	lie := small(t, "lie")
	lie.Plain[0] = []byte(strings.Replace(string(lie.Plain[0]), "lie", "LIE", 1))
	d.Tag("tools:latest", lie)
	if _, err := take("tools"); !errors.Is(err, spec.ErrDenied) {
		t.Error(err)
	}
	must(t, os.Remove(d.Socket))
	got, err = take("tools")
	if err != nil || got.Images[0].Digest != second || !strings.Contains(got.Notice, "no answer from Docker") {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := take("nobody/has:this"); !errors.Is(err, spec.ErrNotFound) || !strings.Contains(err.Error(), "no answer from Docker") {
		t.Error(err)
	}
}
