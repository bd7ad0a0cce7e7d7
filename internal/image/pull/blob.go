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

// has tells whether a blob is there.
func (w *worker) has(d image.Descriptor) bool {
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

// begin begins a blob that is on this machine: nobody goes on with it.
func (w *worker) begin(d image.Descriptor) (*part, error) {
	f, err := w.shelf.NewBlob()
	if err != nil {
		return nil, err
	}
	return &part{w: w, d: d, f: f, sum: sha256.New()}, nil
}

// resume opens what there is of a blob, to be gone on with, and has it alone.
func (w *worker) resume(ctx context.Context, d image.Descriptor) (*part, error) {
	f, err := w.mine(ctx, w.shelf.Part(d.Digest))
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

// mine opens a file and locks it. Who had it before may have given it another name by then,
// or none.
func (w *worker) mine(ctx context.Context, name string) (*os.File, error) {
	for {
		lock, err := w.lock(ctx, name)
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

// close leaves what the next pull can go on with, and nothing else.
func (p *part) close() {
	opened, err := p.f.Stat()
	there, gone := os.Lstat(p.f.Name())
	if p.done == 0 && err == nil && gone == nil && os.SameFile(opened, there) { // another pull may have made one by now
		p.remove()
	}
	_ = p.f.Close()
}

// remove removes it. Once it is finished nothing has its name.
func (p *part) remove() { _ = os.Remove(p.f.Name()) }

// restart begins anew.
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

// Write adds to it, and never more than it is to have.
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

// finish puts a blob that is complete, and right, in its place.
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

// refused removes what is wrong, and says so.
func (p *part) refused() error {
	if err := os.Remove(p.f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return spec.Errorf(spec.ErrDenied, "blob %s is refused: %w", p.d.Digest, errMismatch).
		WithHint("it was damaged on its way or tampered with: try again, and do not trust where it is from if that does not help")
}

// keep stores a document that was compared with its digest.
func (w *worker) keep(d image.Descriptor, text []byte) error {
	if w.has(d) {
		return nil
	}
	if err := w.order.Room.Take(int64(len(text))); err != nil {
		return err
	}
	w.fresh = true
	return store.WriteFile(w.shelf.Blob(d.Digest), text)
}

// read gives a document that is there.
func (w *worker) read(d image.Descriptor, most int64) ([]byte, error) {
	f, err := store.OpenRegular(w.shelf.Blob(d.Digest), 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := store.ReadAll(f, most)
	if err != nil {
		return nil, err
	}
	return checked(d, text)
}
