package pull

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func (w *worker) hasBlob(d image.Descriptor) bool {
	info, err := os.Lstat(w.shelf.Blob(d.Digest))
	return err == nil && info.Mode().IsRegular() && (d.Size == 0 || info.Size() == d.Size)
}

// part is a blob that is not complete yet.
type part struct {
	w    *worker
	d    image.Descriptor
	f    *os.File
	sum  hash.Hash
	done int64
}

var errMismatch = errors.New("it is not what its digest says")

// newPart starts a blob from local data. Later pulls do not resume it.
func (w *worker) newPart(d image.Descriptor) (*part, error) {
	f, err := w.shelf.NewBlob()
	if err != nil {
		return nil, err
	}
	return &part{w: w, d: d, f: f, sum: sha256.New()}, nil
}

// resumePart opens the partial file of a blob to continue it, and locks it.
func (w *worker) resumePart(ctx context.Context, d image.Descriptor) (*part, error) {
	f, err := w.openLocked(ctx, w.shelf.Part(d.Digest))
	if err != nil {
		return nil, err
	}
	p := &part{w: w, d: d, f: f, sum: sha256.New()}
	if p.done, err = io.Copy(p.sum, f); err == nil && p.done > d.Size {
		err = p.restart()
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return p, nil
}

// openLocked opens a file and locks it. The previous owner may have renamed or removed the file
// meanwhile; then openLocked opens it again.
func (w *worker) openLocked(ctx context.Context, name string) (*os.File, error) {
	for {
		lock, err := w.lockFile(ctx, name)
		if err != nil {
			return nil, err
		}
		opened, err := lock.File().Stat()
		there, gone := os.Lstat(name)
		if err == nil && gone == nil && os.SameFile(opened, there) {
			return lock.File(), nil
		}
		lock.Unlock()
		if err = errors.Join(err, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// close keeps a partial blob that the next pull can resume, and removes an empty one.
func (p *part) close() {
	opened, err := p.f.Stat()
	there, gone := os.Lstat(p.f.Name())
	if p.done == 0 && err == nil && gone == nil && os.SameFile(opened, there) { // another pull may have made one meanwhile
		p.remove()
	}
	_ = p.f.Close()
}

// remove removes the file. A finished blob has lost this temporary name already.
func (p *part) remove() { _ = os.Remove(p.f.Name()) }

func (p *part) restart() error {
	p.sum.Reset()
	_ = p.w.order.Room.Take(-p.done)
	p.done = 0
	if err := p.f.Truncate(0); err != nil {
		return err
	}
	_, err := p.f.Seek(0, io.SeekStart)
	return err
}

// Write adds to the blob, and never more than its size.
func (p *part) Write(b []byte) (int, error) {
	if int64(len(b)) > p.d.Size-p.done {
		return 0, errMismatch
	}
	if err := p.w.order.Room.Take(int64(len(b))); err != nil {
		return 0, err
	}
	n, err := p.f.Write(b)
	if err != nil {
		err = &spec.Error{Op: "store a blob", Err: err}
	}
	p.sum.Write(b[:n])
	p.done += int64(n)
	return n, err
}

// finish checks a complete blob and moves it into place.
func (p *part) finish() error {
	if p.done != p.d.Size || image.Digest(p.sum.Sum(nil)) != p.d.Digest {
		return errMismatch
	}
	if err := p.f.Sync(); err != nil {
		return err
	}
	to := p.w.shelf.Blob(p.d.Digest)
	if err := os.Rename(p.f.Name(), to); err != nil {
		return err
	}
	p.w.fresh = true
	return store.SyncDir(filepath.Dir(to))
}

func tampered(d image.Descriptor) error {
	return spec.Errorf(spec.ErrDenied, "blob %s is refused: %w", d.Digest, errMismatch).
		WithHint("it was damaged on its way or tampered with: try again, and do not trust where it is from if that does not help")
}

// storeText stores a document whose digest was checked.
func (w *worker) storeText(d image.Descriptor, text []byte) error {
	if w.hasBlob(d) {
		return nil
	}
	if err := w.order.Room.Take(int64(len(text))); err != nil {
		return err
	}
	w.fresh = true
	return store.WriteFile(w.shelf.Blob(d.Digest), text)
}

func (w *worker) readText(d image.Descriptor, most int64) ([]byte, error) {
	f, err := store.OpenRegular(w.shelf.Blob(d.Digest), 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := store.ReadAll(f, most)
	if err != nil {
		return nil, err
	}
	return checkDigest(d, text)
}
