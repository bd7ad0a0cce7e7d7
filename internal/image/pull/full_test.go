package pull

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/internal/smalldisk"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func TestFullDisk(t *testing.T) {
	smalldisk.Test(t, "4m", testFullDisk)
}

// testFullDisk checks the error of a full disk, for every source of an image. The error names the disk
// and tells how to free space. For a file on another disk, it does not give that hint.
func testFullDisk(t *testing.T, dir string) {
	b := newBench(t)
	b.state = filepath.Join(dir, "state")
	r := imagetest.NewRegistry(t)
	packed := imagetest.New(t, imagetest.Config{}, imagetest.Layer(t, imagetest.File("x", noise(5<<20))))
	r.Publish("noise", "v1", packed)
	r.Publish("same", "v1", imagetest.New(t, imagetest.Config{}, imagetest.Layer(t, imagetest.File("x", strings.Repeat("x", 5<<20)))))
	name := filepath.Join(t.TempDir(), "image.tar")
	packed.Save(t, name, "noise:v1")
	for what, o := range map[string]image.Order{
		"a blob that is fetched": {Pull: r.Host + "/noise:v1"},
		"a root that is written": {Pull: r.Host + "/same:v1"},
		"a blob from an archive": {Load: name},
	} {
		t.Run(what, func(t *testing.T) {
			must(t, os.RemoveAll(b.state))
			_, err := b.do(t, o)
			if !store.IsFull(err) || !strings.Contains(spec.Hint(err), b.state) {
				t.Errorf("%v; hint %q", err, spec.Hint(err))
			}
		})
	}
	t.Run("another disk", func(t *testing.T) {
		must(t, os.RemoveAll(b.state))
		to := filepath.Join(dir, "file")
		must(t, os.WriteFile(to, nil, 0o600))
		other := newBench(t)
		res, err := other.do(t, image.Order{Load: name})
		must(t, err)
		_, err = other.do(t, image.Order{Export: &image.Export{Name: "noise:v1", Digest: res.Images[0].Digest, To: to}})
		if !store.IsFull(err) || strings.Contains(spec.Hint(err), "bothy") {
			t.Errorf("%v; hint %q", err, spec.Hint(err))
		}
	})
}
