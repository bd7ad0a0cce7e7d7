package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// shelved makes an image without a root. The name may be empty.
func shelved(t *testing.T, e *Engine, name string) image.Image {
	t.Helper()
	s := e.Images()
	must(t, s.Make())
	text := []byte(`{"schemaVersion":2}`)
	sum := sha256.Sum256(text)
	img := image.Image{Name: name, Digest: image.Digest(sum[:])}
	must(t, store.WriteFile(s.Blob(img.Digest), text))
	must(t, s.Add(image.Descriptor{Digest: img.Digest, Size: int64(len(text))}, img))
	return img
}

// TestImagesAreHeld checks that an image is not swept before the sandbox that is about to use it is
// recorded.
func TestImagesAreHeld(t *testing.T) {
	e := newEngine(t)
	img := shelved(t, e, "")
	must(t, e.HoldImages())
	must(t, e.HoldImages())
	other := &Engine{Store: e.Store}
	if _, err := other.SweepImages(); !errors.Is(err, image.ErrHeld) || !errors.Is(err, spec.ErrConflict) {
		t.Errorf("swept meanwhile: %v", err)
	}
	if !e.hasBlob(img.Digest) {
		t.Error("it has gone meanwhile")
	}
	if !e.sweepLater() {
		t.Error("it would be swept while it is held")
	}
	must(t, e.Create(t.Context(), wish("/srv/app")))
	if e.hasBlob(img.Digest) {
		t.Error("what nobody uses is there after the sandbox was created")
	}
	if _, err := other.SweepImages(); err != nil {
		t.Error(err)
	}
}

// TestBrokenTemplateKeepsImages checks that no image is removed while a template is unreadable,
// because its image is not known.
func TestBrokenTemplateKeepsImages(t *testing.T) {
	e := newEngine(t)
	img := shelved(t, e, "docker.io/library/tools:v1")
	shelf := e.Templates()
	must(t, os.MkdirAll(shelf.Path("odd:v1"), 0o700))
	for what, err := range map[string]error{"its use": e.ImageInUse(img), "rm": e.RemoveImage(img)} {
		if !errors.Is(err, spec.ErrConflict) || spec.Hint(err) != "remove it: bothy template rm odd:v1" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := e.PruneImages(); !errors.Is(err, spec.ErrConflict) || !e.hasBlob(img.Digest) {
		t.Errorf("prune: %v", err)
	}
	d, err := e.Disk()
	must(t, err)
	for _, it := range d.Items {
		if it.Kept == "" {
			t.Errorf("%+v could be removed", it)
		}
	}
	must(t, shelf.Remove("odd:v1"))
	must(t, e.RemoveImage(img))
}

// TestImageOfBuild checks that the error names the build that uses an image: a build ends by
// itself.
func TestImageOfBuild(t *testing.T) {
	e := newEngine(t)
	img := shelved(t, e, "docker.io/library/tools:v1")
	sb := wish("/srv/app")
	sb.Name, sb.Image, sb.Build = "build-1", &spec.Image{Digest: img.Digest}, &spec.Build{}
	_, err := e.Store.Create(sb)
	must(t, err)
	if err := e.ImageInUse(img); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "used by a build that runs (build-1)") {
		t.Error(err)
	}
}

// TestRemoveHeldImage checks that an image can lose its name while images are held.
func TestRemoveHeldImage(t *testing.T) {
	e := newEngine(t)
	img := shelved(t, e, "docker.io/library/tools:v1")
	must(t, e.HoldImages())
	other := &Engine{Store: e.Store}
	must(t, other.RemoveImage(img))
	if list, err := other.Images().List(); err != nil || len(list) != 0 || !e.hasBlob(img.Digest) {
		t.Errorf("%v, %v", list, err)
	}
}

// TestImageRootIsGivenUp checks that a caller that waits for another process's work on an image can
// be cancelled.
func TestImageRootIsGivenUp(t *testing.T) {
	e := newEngine(t)
	img := shelved(t, e, "docker.io/library/tools:v1")
	lock, err := store.TryLock(e.Images().Lock())
	must(t, err)
	defer lock.Unlock()
	sb := wish("/srv/app")
	sb.Template, sb.Image = img.Name, &spec.Image{Name: img.Name, Digest: img.Digest}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("told to go")
	time.AfterFunc(200*time.Millisecond, func() { cancel(gone) })
	began := time.Now()
	if err := e.Create(ctx, sb); !errors.Is(err, gone) || time.Since(began) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	if _, err := os.Stat(e.Images().RootDir(img.Digest)); err == nil {
		t.Error("there is a root")
	}
}

// TestDownloadsThatBrokeOff checks that an interrupted download counts as disk use. It can be
// removed, unless another process works on images.
func TestDownloadsThatBrokeOff(t *testing.T) {
	e := newEngine(t)
	img := shelved(t, e, "docker.io/library/tools:v1")
	part := e.Images().Part(image.Digest(make([]byte, 32)))
	must(t, os.WriteFile(part, make([]byte, 5000), 0o600))
	find := func() DiskItem {
		t.Helper()
		d, err := e.Disk()
		must(t, err)
		i := slices.IndexFunc(d.Items, func(it DiskItem) bool { return it.Kind == DiskLeftover })
		if i < 0 || d.Items[i].Bytes < 5000 {
			t.Fatalf("%+v", d.Items)
		}
		return d.Items[i]
	}
	free := find()
	lock, err := store.TryLock(e.Images().Lock())
	must(t, err)
	if it := find(); it.Kept == "" {
		t.Errorf("it could be removed from under somebody: %+v", it)
	}
	if err := e.RemoveItem(t.Context(), free); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%v", err)
	}
	if _, err := e.PruneImages(); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%v", err)
	}
	lock.Unlock()
	must(t, e.RemoveItem(t.Context(), find()))
	if _, err := os.Stat(part); err == nil {
		t.Error("it is there")
	}
	must(t, os.WriteFile(part, make([]byte, 5000), 0o600))
	if freed, err := e.PruneImages(); freed != 5000 || err != nil || !e.hasBlob(img.Digest) {
		t.Errorf("%d, %v", freed, err)
	}
}

// TestWhatKilledProcessesLeave checks that the remains of a killed pull, load or save count as disk
// use, and can be removed. Files that are just being made stay, and so do the files of an image.
func TestWhatKilledProcessesLeave(t *testing.T) {
	e := newEngine(t)
	img := shelved(t, e, "docker.io/library/tools:v1")
	images, shelf := e.Images(), e.Templates().Dir
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
	left := func() (kept, free []DiskItem) {
		t.Helper()
		d, err := e.Disk()
		must(t, err)
		for _, it := range d.Items {
			switch {
			case it.Kind != DiskLeftover:
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
	conflict := func(when string, list []DiskItem) {
		t.Helper()
		for _, it := range list {
			if err := e.RemoveItem(t.Context(), it); !errors.Is(err, spec.ErrConflict) {
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
	ofImages := slices.DeleteFunc(slices.Clone(free), func(it DiskItem) bool { return !strings.HasPrefix(it.Name, "image/") })
	held, err := images.Hold()
	must(t, err)
	conflict("a sandbox is being created", ofImages)
	held.Unlock()
	filling = lock(shelf + "/.new-1/.lock")
	conflict("it is filled", slices.DeleteFunc(slices.Clone(free), func(it DiskItem) bool { return it.Name != "template/.new-1" }))
	filling.Unlock()
	text := fmt.Appendf(nil, `{"config":{"digest":%q}}`, digest)
	sum := sha256.Sum256(text)
	other := image.Image{Name: "docker.io/library/other:v1", Digest: image.Digest(sum[:])}
	must(t, store.WriteFile(images.Blob(other.Digest), text))
	must(t, images.Add(image.Descriptor{Digest: other.Digest}, other))
	conflict("an image has it", slices.DeleteFunc(ofImages, func(it DiskItem) bool {
		return !strings.Contains(it.Name, image.Hex(digest))
	}))
	must(t, images.Forget(other))
	must(t, os.Remove(images.Blob(other.Digest)))

	for _, it := range free {
		must(t, e.RemoveItem(t.Context(), it))
	}
	must(t, e.RemoveItem(t.Context(), free[0])) // another command was faster
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
