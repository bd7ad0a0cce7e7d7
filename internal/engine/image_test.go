package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// shelved makes an image without a root. The name may be empty.
func shelved(t *testing.T, e *Engine, name string) image.Image {
	t.Helper()
	s := e.Images().Shelf()
	must(t, s.Make())
	text := []byte(`{"schemaVersion":2}`)
	sum := sha256.Sum256(text)
	img := image.Image{Name: name, Digest: image.Digest(sum[:])}
	must(t, store.WriteFile(s.Blob(img.Digest), text))
	must(t, s.Add(image.Descriptor{Digest: img.Digest, Size: int64(len(text))}, img))
	return img
}

func hasBlob(e *Engine, img image.Image) bool {
	_, err := os.Lstat(e.Images().Shelf().Blob(img.Digest))
	return err == nil
}

// TestImagesAreHeld checks that an image is not swept before the sandbox that is about to use it is
// recorded.
func TestImagesAreHeld(t *testing.T) {
	e := newEngine(t)
	img := shelved(t, e, "")
	must(t, e.Images().Hold())
	must(t, e.Images().Hold())
	other := &Engine{Store: e.Store}
	if _, err := other.Images().Sweep(); !errors.Is(err, image.ErrHeld) || !errors.Is(err, spec.ErrConflict) {
		t.Errorf("swept meanwhile: %v", err)
	}
	if !hasBlob(e, img) {
		t.Error("it has gone meanwhile")
	}
	must(t, e.Create(t.Context(), wish("/srv/app")))
	if _, err := other.Images().Sweep(); err != nil || hasBlob(e, img) {
		t.Errorf("it is there after the sandbox was created: %t, %v", hasBlob(e, img), err)
	}
}

// TestImageRootIsGivenUp checks that a caller that waits for another process's work on an image can
// be cancelled.
func TestImageRootIsGivenUp(t *testing.T) {
	e := newEngine(t)
	img := shelved(t, e, "docker.io/library/tools:v1")
	lock, err := store.TryLock(e.Images().Shelf().Lock())
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
	if _, err := os.Stat(e.Images().Shelf().RootDir(img.Digest)); err == nil {
		t.Error("there is a root")
	}
}
