// Package pull fetches container images, from registries, archives and directories, and makes their root
// file systems. It runs in a process of its own, for one order. It links an HTTP client, which other
// commands need not wait for.
//
// Every blob is compared with its digest before anything reads it, and every layer once more when it is
// unpacked. The next order that needs an incomplete blob resumes it.
package pull

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/helper"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Main carries out one order and returns the exit code.
func Main(in io.Reader, out io.Writer) int {
	return helper.Run(in, out, func(ctx context.Context, o image.Order, tell func(image.Event)) (image.Result, error) {
		var pace helper.Pace
		return Do(ctx, o, func(e image.Event) {
			if pace.Worth(string(e.Phase)+" "+e.Name, e.Bytes, e.Total) {
				tell(e)
			}
		})
	})
}

// worker carries out one order. While it runs, nothing is removed from the shelf. It takes
// the shelf's lock only when all remote data has arrived, so that other orders do not wait
// for a slow registry.
type worker struct {
	shelf    image.Shelf
	order    image.Order
	paths    *hostpath.Guard // finds the programs that provide logins
	progress func(image.Event)
	fresh    bool
	notice   string
}

// Do carries out an order.
func Do(ctx context.Context, o image.Order, progress func(image.Event)) (image.Result, error) {
	st, err := store.Open(o.State)
	if err != nil {
		return image.Result{}, err
	}
	w := &worker{shelf: image.Shelf{Dir: st.Images(), UID: o.UID, GID: o.GID}, order: o, progress: progress}
	if w.paths, err = hostpath.Load(st); err != nil {
		return image.Result{}, err
	}
	if err := w.shelf.Make(); err != nil {
		return image.Result{}, err
	}
	hold, err := w.shelf.Hold()
	if err != nil {
		return image.Result{}, err
	}
	defer hold.Unlock()
	var list []image.Image
	switch {
	case o.Pull != "":
		list, err = oneImage(w.pullImage(ctx))
		err = wrapError("pull "+o.Pull, err)
	case o.Feature != "":
		list, err = oneImage(w.pullFeature(ctx))
		err = wrapError("pull "+o.Feature, err)
	case o.Docker != "":
		list, err = w.takeFromDocker(ctx)
		err = wrapError("take "+o.Docker+" from Docker", err)
	case o.Load != "":
		list, err = whileLocked(ctx, w, w.loadPath)
		err = wrapError("load "+cmp.Or(o.From, o.Load), err)
	case o.Export != nil:
		list, err = oneImage(w.export(ctx, *o.Export))
	case o.Plain != "":
		list, err = oneImage(whileLocked(ctx, w, w.plainBase))
		err = wrapError("ready image "+o.Plain+" for a build", err)
	case o.Commit != nil:
		list, err = oneImage(whileLocked(ctx, w, w.commit))
		err = wrapError("make an image of the build", err)
	case o.Build != "":
		list, err = oneImage(whileLocked(ctx, w, w.rebuild))
		err = wrapError("make the root of "+o.Build, err)
	default:
		err = errors.New("it was given nothing to do")
	}
	return image.Result{Images: list, Fresh: w.fresh, Notice: w.notice}, adviseFull(st, err)
}

func oneImage(img image.Image, err error) ([]image.Image, error) { return []image.Image{img}, err }

// adviseFull adds a hint to the error of a full disk, if it is the disk of the images. An
// export may write to a file on another disk; then it adds no hint.
func adviseFull(st *store.Store, err error) error {
	if !store.IsFull(err) {
		return err
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && !strings.HasPrefix(at.Path, st.Path()+"/") {
		return err
	}
	return (&spec.Error{Err: err}).WithHint("%s", st.FullHint())
}

func wrapError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &spec.Error{Op: op, Err: clipped{err}}
}

// lockPoll is the interval between attempts to take a lock that another process holds.
const lockPoll = 50 * time.Millisecond

// whileLocked runs do while other processes cannot change the shelf. If two orders want the same
// image, it is made once.
func whileLocked[T any](ctx context.Context, w *worker, do func(context.Context) (T, error)) (result T, err error) {
	lock, err := w.lockFile(ctx, w.shelf.Lock())
	if err != nil {
		return result, err
	}
	defer lock.Unlock()
	return do(ctx)
}

// lockFile takes a lock, and reports if it has to wait.
func (w *worker) lockFile(ctx context.Context, name string) (*store.Lock, error) {
	for {
		lock, err := store.TryLock(name)
		if !errors.Is(err, store.ErrLocked) {
			return lock, err
		}
		w.progress(image.Event{Phase: image.Waiting})
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

func (w *worker) rebuild(ctx context.Context) (image.Image, error) {
	if err := image.CheckDigest(w.order.Build); err != nil {
		return image.Image{}, err
	}
	root, err := w.ensureRoot(ctx, w.order.Build)
	return image.Image{Digest: w.order.Build, Bytes: root.Bytes, Root: &root}, err
}
