package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// shelved makes an image that has a name, or none, and no root.
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

// What a sandbox is about to be created with is not swept away before it is written
// down that it uses it.
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

// What a template uses that cannot be read is not known: no image is removed until it is gone.
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

// A name can be taken from an image meanwhile.
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

// Who waits for an image that somebody else is at work on can be told to go.
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

// What broke off takes room, and goes when it is asked for, unless somebody is at
// work on it.
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
