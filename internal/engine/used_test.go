package engine

import (
	"os"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestImageIsUsed checks that an image was last used when a sandbox began with it, however old the
// image is.
func TestImageIsUsed(t *testing.T) {
	e := newEngine(t)
	img := shelved(t, e, "docker.io/library/tools:v1")
	old := time.Now().Add(-1000 * time.Hour)
	dir := e.Images().Shelf().RootDir(img.Digest)
	about := dir + "/image.json"
	must(t, os.MkdirAll(dir, 0o700))
	must(t, store.WriteJSON(about, image.Root{Version: image.RootVersion, Digest: img.Digest, Built: old}))
	must(t, os.WriteFile(dir+"/home.tar", make([]byte, 1024), 0o600))
	must(t, os.Chtimes(about, old, old))
	used := func() time.Time {
		t.Helper()
		d, err := e.Disk().Measure()
		must(t, err)
		for _, it := range d.Items {
			if it.Kind == rootfs.KindImage {
				return it.Used
			}
		}
		t.Fatalf("%+v", d.Items)
		return time.Time{}
	}
	if at := used(); at.After(old.Add(time.Hour)) {
		t.Errorf("before: %s", at)
	}
	sb := wish("/srv/app")
	sb.Template, sb.Image = img.Name, &spec.Image{Name: img.Name, Digest: img.Digest}
	must(t, e.Create(t.Context(), sb))
	if at := used(); at.Before(old.Add(time.Hour)) {
		t.Errorf("after: %s", at)
	}
}
