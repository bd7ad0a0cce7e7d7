package pull

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/imagetest"
	"github.com/bothy-dev/bothy/spec"
)

// TestNoRoom checks that an image that exceeds the disk limit is refused at that point,
// whatever its source. It leaves no root and no part of a blob.
func TestNoRoom(t *testing.T) {
	r := imagetest.NewRegistry(t)
	i := imagetest.New(t, imagetest.Config{}, imagetest.Layer(t, imagetest.File("etc/x", string(make([]byte, 2<<20))), imagetest.File("etc/y", noise(50_000))))
	r.Publish("tools", "v1", i)
	name := filepath.Join(t.TempDir(), "image.tar")
	i.Save(t, name, "tools:v1")
	for what, x := range map[string]struct {
		order image.Order
		left  int64
	}{
		"a blob that is fetched":     {image.Order{Pull: r.Host + "/tools:v1"}, 20_000},
		"the root of what was there": {image.Order{Pull: r.Host + "/tools:v1"}, 1 << 20},
		"a blob that is loaded":      {image.Order{Load: name}, 1 << 20},
		"the root of what is loaded": {image.Order{Load: name}, 3 << 20},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			x.order.Room = &image.Room{Left: x.left, Limit: 1 << 30}
			if _, err := b.do(t, x.order); !errors.Is(err, spec.ErrConflict) || spec.Hint(err) == "" {
				t.Fatalf("%v", err)
			}
			if list, err := b.shelf.List(); err != nil || len(list) != 0 {
				t.Errorf("%v, %v", list, err)
			}
			roots, err := os.ReadDir(filepath.Join(b.shelf.Dir, "roots"))
			must(t, err)
			parts, err := filepath.Glob(filepath.Join(b.shelf.Dir, "blobs", "sha256", ".*"))
			must(t, err)
			if len(roots)+len(parts) != 0 {
				t.Errorf("%v and %v are left", roots, parts)
			}
			x.order.Room.Left = 64 << 20
			_, err = b.do(t, x.order)
			must(t, err)
		})
	}
}
