package rootfs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noneAway is a life cycle without sandboxes that are put away.
type noneAway struct{ Sandboxes }

func (noneAway) EachAway(func(*spec.Sandbox) error) error { return nil }

func newImages(t testing.TB) *Images {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return &Images{Store: s, Room: Room{Store: s}, Sandboxes: noneAway{}, Held: &Hold{}, Say: t.Logf}
}

// sameState returns the images of another process that works on the same state directory.
func sameState(i *Images) *Images {
	other := *i
	other.Held = &Hold{}
	return &other
}

func measure(i *Images) (Usage, error) {
	return (&Disk{Images: i, Builds: &Builds{Images: i}}).Measure()
}

// shelved makes an image without a root. The name may be empty.
func shelved(t *testing.T, i *Images, name string) image.Image {
	t.Helper()
	s := i.Shelf()
	must(t, s.Make())
	text := []byte(`{"schemaVersion":2}`)
	sum := sha256.Sum256(text)
	img := image.Image{Name: name, Digest: image.Digest(sum[:])}
	must(t, store.WriteFile(s.Blob(img.Digest), text))
	must(t, s.Add(image.Descriptor{Digest: img.Digest, Size: int64(len(text))}, img))
	return img
}

// TestSweepAfterRelease checks that an image that lost its name while images were held is removed
// when they are released, and not before.
func TestSweepAfterRelease(t *testing.T) {
	i := newImages(t)
	img := shelved(t, i, "")
	must(t, i.Hold())
	must(t, i.Hold())
	other := sameState(i)
	if _, err := other.Sweep(); !errors.Is(err, image.ErrHeld) || !errors.Is(err, spec.ErrConflict) {
		t.Errorf("swept meanwhile: %v", err)
	}
	if !i.hasBlob(img.Digest) {
		t.Error("it has gone meanwhile")
	}
	if !i.sweepLater() {
		t.Error("it would be swept while it is held")
	}
	i.Release()
	if i.hasBlob(img.Digest) {
		t.Error("what nobody uses is there after the images were released")
	}
	if _, err := other.Sweep(); err != nil {
		t.Error(err)
	}
}

// TestBrokenTemplateKeepsImages checks that no image is removed while a template is unreadable,
// because its image is not known.
func TestBrokenTemplateKeepsImages(t *testing.T) {
	i := newImages(t)
	img := shelved(t, i, "docker.io/library/tools:v1")
	shelf := i.templates()
	must(t, os.MkdirAll(shelf.Path("odd:v1"), 0o700))
	for what, err := range map[string]error{"its use": i.CheckUnused(img), "rm": i.Remove(img)} {
		if !errors.Is(err, spec.ErrConflict) || spec.Hint(err) != "remove it: bothy template rm odd:v1" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := i.Prune(); !errors.Is(err, spec.ErrConflict) || !i.hasBlob(img.Digest) {
		t.Errorf("prune: %v", err)
	}
	d, err := measure(i)
	must(t, err)
	for _, it := range d.Items {
		if it.Kept == "" {
			t.Errorf("%+v could be removed", it)
		}
	}
	must(t, shelf.Remove("odd:v1"))
	must(t, i.Remove(img))
}

// TestImageOfBuild checks that the error names the build that uses an image: a build ends by
// itself.
func TestImageOfBuild(t *testing.T) {
	i := newImages(t)
	img := shelved(t, i, "docker.io/library/tools:v1")
	sb := &spec.Sandbox{Version: spec.Version, ID: store.NewID(), Name: "build-1", Agent: "shell", Template: spec.TemplateHost, Image: &spec.Image{Digest: img.Digest}, Build: &spec.Build{}}
	_, err := i.Store.Create(sb)
	must(t, err)
	if err := i.CheckUnused(img); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "used by a build that runs (build-1)") {
		t.Error(err)
	}
}

// TestRemoveHeldImage checks that an image can lose its name while images are held.
func TestRemoveHeldImage(t *testing.T) {
	i := newImages(t)
	img := shelved(t, i, "docker.io/library/tools:v1")
	must(t, i.Hold())
	other := sameState(i)
	must(t, other.Remove(img))
	if list, err := other.Shelf().List(); err != nil || len(list) != 0 || !i.hasBlob(img.Digest) {
		t.Errorf("%v, %v", list, err)
	}
}

// TestDownloadsThatBrokeOff checks that an interrupted download counts as disk use. It can be
// removed, unless another process works on images.
func TestDownloadsThatBrokeOff(t *testing.T) {
	i := newImages(t)
	img := shelved(t, i, "docker.io/library/tools:v1")
	part := i.Shelf().Part(image.Digest(make([]byte, 32)))
	must(t, os.WriteFile(part, make([]byte, 5000), 0o600))
	find := func() Item {
		t.Helper()
		d, err := measure(i)
		must(t, err)
		at := slices.IndexFunc(d.Items, func(it Item) bool { return it.Kind == KindLeftover })
		if at < 0 || d.Items[at].Bytes < 5000 {
			t.Fatalf("%+v", d.Items)
		}
		return d.Items[at]
	}
	free := find()
	lock, err := store.TryLock(i.Shelf().Lock())
	must(t, err)
	if it := find(); it.Kept == "" {
		t.Errorf("it could be removed from under somebody: %+v", it)
	}
	if err := free.Remove(t.Context()); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%v", err)
	}
	if _, err := i.Prune(); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%v", err)
	}
	lock.Unlock()
	must(t, find().Remove(t.Context()))
	if _, err := os.Stat(part); err == nil {
		t.Error("it is there")
	}
	must(t, os.WriteFile(part, make([]byte, 5000), 0o600))
	if freed, err := i.Prune(); freed != 5000 || err != nil || !i.hasBlob(img.Digest) {
		t.Errorf("%d, %v", freed, err)
	}
}

// TestWhatKilledProcessesLeave checks that the remains of a killed pull, load or save count as disk
// use, and can be removed. Files that are just being made stay, and so do the files of an image.
func TestWhatKilledProcessesLeave(t *testing.T) {
	i := newImages(t)
	img := shelved(t, i, "docker.io/library/tools:v1")
	images, shelf := i.Shelf(), i.templates().Dir
	digest := image.Digest(make([]byte, 32))
	made, err := images.NewRoot()
	must(t, err)
	staying := []string{images.RootDir(img.Digest), shelf + "/a:v1"}
	going := []string{made, filepath.Dir(made) + "/.gone-1", images.RootDir(digest) + "0", shelf + "/.new-1", shelf + "/.gone-b:v1", shelf + "/.old-a:v1"}
	for _, dir := range slices.Concat(staying, going) {
		must(t, os.MkdirAll(dir, 0o700))
		must(t, os.WriteFile(dir+"/large", make([]byte, 5000), 0o600))
	}
	must(t, store.WriteJSON(shelf+"/a:v1/template.json", map[string]any{"version": 1, "name": "a:v1", "base": spec.TemplateHost}))
	must(t, os.WriteFile(images.Blob(digest), make([]byte, 5000), 0o600))
	staying, going = append(staying, images.Blob(img.Digest)), append(going, images.Blob(digest))

	lock := func(path string) *store.Lock {
		t.Helper()
		l, err := store.TryLock(path)
		must(t, err)
		return l
	}
	left := func() (kept, free []Item) {
		t.Helper()
		d, err := measure(i)
		must(t, err)
		for _, it := range d.Items {
			switch {
			case it.Kind != KindLeftover:
				continue
			case it.Bytes < 5000 || it.Used.IsZero():
				t.Errorf("%+v", it)
			case it.Kept != "":
				kept = append(kept, it)
				continue
			}
			free = append(free, it)
		}
		return kept, free
	}
	conflict := func(when string, list []Item) {
		t.Helper()
		for _, it := range list {
			if err := it.Remove(t.Context()); !errors.Is(err, spec.ErrConflict) {
				t.Errorf("%s: %s: %v", when, it.Name, err)
			}
		}
	}
	fetching, filling := lock(images.Lock()), lock(shelf+"/.new-1/.lock")
	if kept, free := left(); len(kept) != 5 || len(free) != 2 || kept[0].Kept != "an image is being fetched, written or sent" {
		t.Errorf("while they are made: kept %+v, not kept %+v", kept, free)
	}
	fetching.Unlock()
	filling.Unlock()
	shelfLock := lock(shelf + "/.lock")
	if kept, free := left(); len(kept) != 3 || len(free) != 4 {
		t.Errorf("while a template is made: kept %+v, not kept %+v", kept, free)
	}
	shelfLock.Unlock()
	kept, free := left()
	if len(kept) != 0 || len(free) != len(going) {
		t.Fatalf("kept %+v, not kept %+v", kept, free)
	}

	fetching, shelfLock = lock(images.Lock()), lock(shelf+"/.lock")
	conflict("somebody makes them again", free)
	fetching.Unlock()
	shelfLock.Unlock()
	ofImages := slices.DeleteFunc(slices.Clone(free), func(it Item) bool { return !strings.HasPrefix(it.Name, "image/") })
	held, err := images.Hold()
	must(t, err)
	conflict("a sandbox is being created", ofImages)
	held.Unlock()
	filling = lock(shelf + "/.new-1/.lock")
	conflict("it is filled", slices.DeleteFunc(slices.Clone(free), func(it Item) bool { return it.Name != "template/.new-1" }))
	filling.Unlock()
	text := fmt.Appendf(nil, `{"config":{"digest":%q}}`, digest)
	sum := sha256.Sum256(text)
	other := image.Image{Name: "docker.io/library/other:v1", Digest: image.Digest(sum[:])}
	must(t, store.WriteFile(images.Blob(other.Digest), text))
	must(t, images.Add(image.Descriptor{Digest: other.Digest}, other))
	conflict("an image has it", slices.DeleteFunc(ofImages, func(it Item) bool {
		return !strings.Contains(it.Name, image.Hex(digest))
	}))
	must(t, images.Forget(other))
	must(t, os.Remove(images.Blob(other.Digest)))

	for _, it := range free {
		must(t, it.Remove(t.Context()))
	}
	must(t, free[0].Remove(t.Context())) // another command was faster
	for _, p := range going {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s is there", p)
		}
	}
	for _, p := range staying {
		if _, err := os.Lstat(p); err != nil {
			t.Error(err)
		}
	}
}
