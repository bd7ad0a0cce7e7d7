package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/archive"
	gateway "github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/helper"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/nsproc"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Images are the container images there are.
func (e *Engine) Images() image.Shelf {
	uid, gid := nsproc.IDs()
	return image.Shelf{Dir: e.Store.Images(), UID: uid, GID: gid}
}

// PullImage asks a registry what a reference means, and fetches what is not there. It is
// foreign if a file of a project has it: see [image.Order].
func (e *Engine) PullImage(ctx context.Context, r image.Reference, foreign bool, progress func(image.Event)) (image.Image, error) {
	result, err := e.addImages(ctx, image.Order{Pull: r.String(), Foreign: foreign}, progress)
	if err != nil {
		return image.Image{}, err
	}
	if result.Fresh {
		e.sweepSoon() // what had the name before
	}
	return result.Images[0], nil
}

// LocalImage finds an image on this machine. What Docker has under its name is newer than
// ours, which may be from there: people build with one and run with the other.
func (e *Engine) LocalImage(ctx context.Context, r image.Reference, progress func(image.Event)) (image.Image, error) {
	img, err := e.localImage(ctx, r, progress)
	if errors.Is(err, spec.ErrNotFound) {
		err = spec.Errorf(spec.ErrNotFound, "%w", err).
			WithHint("docker save %[1]s | bothy template load brings it from Docker; bothy template build -t %[1]s DIRECTORY builds it here", r.Short())
	}
	return img, err
}

func (e *Engine) localImage(ctx context.Context, r image.Reference, progress func(image.Event)) (image.Image, error) {
	socket := image.DockerSocket()
	if socket == "" || r.Digest != "" { // which says what it is, wherever it is from
		img, err := e.Images().Find(r)
		if err != nil && r.Digest == "" {
			err = spec.Errorf(spec.ErrNotFound, "%w, and no socket on which Docker could be asked (DOCKER_HOST)", err)
		}
		return img, err
	}
	result, err := e.addImages(ctx, image.Order{Docker: r.String(), Socket: socket}, progress)
	if err != nil {
		return image.Image{}, err
	}
	if result.Notice != "" {
		e.say("%s", result.Notice)
	}
	if result.Fresh {
		e.sweepSoon() // what had the name before
	}
	return result.Images[0], nil
}

// PullFeature fetches a feature of development containers, as an image. Files of projects
// name them.
func (e *Engine) PullFeature(ctx context.Context, r image.Reference, progress func(image.Event)) (image.Image, error) {
	result, err := e.addImages(ctx, image.Order{Feature: r.String(), Foreign: true}, progress)
	if err != nil {
		return image.Image{}, err
	}
	return result.Images[0], nil
}

// LoadSpooled is LoadImages from a file without a name (see [image.Shelf.Spool]).
func (e *Engine) LoadSpooled(ctx context.Context, f *os.File, from, name string, progress func(image.Event)) ([]image.Image, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
	result, err := e.addImages(ctx, image.Order{Load: path, From: from, Name: name}, progress)
	runtime.KeepAlive(f)
	return result.Images, err
}

// LoadImages reads images from an archive, or from a directory with an image layout.
// The name is that of the only one, instead of its own.
func (e *Engine) LoadImages(ctx context.Context, path, name string, progress func(image.Event)) ([]image.Image, error) {
	result, err := e.addImages(ctx, image.Order{Load: path, Name: name}, progress)
	return result.Images, err
}

// ReadImages is LoadImages for images that are only to be used: by their digests, as what
// a file says that it is may not be so.
func (e *Engine) ReadImages(ctx context.Context, path string, progress func(image.Event)) ([]image.Image, error) {
	result, err := e.addImages(ctx, image.Order{Load: path, Nameless: true}, progress)
	return result.Images, err
}

// addImages is orderImage for what there has to be room for. What there is none for leaves
// nothing.
func (e *Engine) addImages(ctx context.Context, o image.Order, progress func(image.Event)) (image.Result, error) {
	left, err := e.roomLeft()
	if err != nil {
		return image.Result{}, err
	}
	if e.StoreLimit > 0 {
		o.Room = &image.Room{Left: left, Limit: e.StoreLimit}
	}
	result, err := e.orderImage(ctx, o, progress)
	if o.Room != nil && errors.Is(err, spec.ErrConflict) {
		e.sweepSoon()
	}
	return result, err
}

// orderImage has the process that fetches images carry out an order.
func (e *Engine) orderImage(ctx context.Context, o image.Order, progress func(image.Event)) (image.Result, error) {
	o.State = e.Store.Path()
	o.UID, o.GID = nsproc.IDs()
	o.Resolver = fmt.Sprintf("nameserver %s\n", gateway.Gateway4)
	result, err := helper.Ask[image.Event, image.Result](ctx, image.Argv0, o, progress)
	if err == nil && len(result.Images) == 0 {
		err = helper.ErrSilent
	}
	if errors.Is(err, helper.ErrSilent) {
		err = &spec.Error{Op: "fetch an image", Err: err, Hint: "run it again: it goes on where it ended"}
	}
	return result, err
}

// imageRoot gives the root of a sandbox's image.
func (e *Engine) imageRoot(ctx context.Context, sb *spec.Sandbox) (image.Root, error) {
	if err := image.CheckDigest(sb.Image.Digest); err != nil {
		return image.Root{}, err
	}
	root, err := e.Images().UsableRoot(sb.Image.Digest)
	if errors.Is(err, image.ErrDamagedRoot) {
		e.say("image %s: %v", cmp.Or(image.Short(sb.Image.Name), sb.Image.Digest), err)
	}
	if errors.Is(err, fs.ErrNotExist) && e.hasBlob(sb.Image.Digest) { // damaged, of another version, or for other ids
		e.say("making the root of image %s again", cmp.Or(image.Short(sb.Image.Name), sb.Image.Digest))
		var result image.Result
		if result, err = e.orderImage(ctx, image.Order{Build: sb.Image.Digest}, nil); err == nil {
			return e.Images().Root(result.Images[0].Digest)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = noImage(sb.Image)
	}
	return root, err
}

func (e *Engine) hasBlob(digest string) bool {
	_, err := os.Lstat(e.Images().Blob(digest))
	return err == nil
}

// noImage says that an image is not there any more.
func noImage(i *spec.Image) error {
	if i.Name == "" { // it came from a file
		return spec.Errorf(spec.ErrNotFound, "the image %s is not on this machine any more", i.Digest).
			WithHint("load it again from the file it was in: bothy template load FILE")
	}
	return spec.Errorf(spec.ErrNotFound, "the image %s (%s) is not on this machine any more", image.Short(i.Name), i.Digest).
		WithHint("fetch it again: bothy template pull %s", again(i))
}

// again is the reference of just that image.
func again(i *spec.Image) string {
	r, err := image.ParseReference(i.Name)
	if err != nil {
		return "NAME@" + i.Digest
	}
	r.Tag, r.Digest = "", i.Digest
	return r.Short()
}

// launchImage is what a keeper must know of its sandbox's image; nil if it has none.
func (e *Engine) launchImage(ctx context.Context, sb *spec.Sandbox) (*image.Root, error) {
	if sb.Image == nil {
		return nil, nil
	}
	root, err := e.imageRoot(ctx, sb)
	return &root, err
}

// beginImage has a new sandbox's home begin with what the image has there.
func (e *Engine) beginImage(ctx context.Context, sb *spec.Sandbox, d store.Sandbox) error {
	root, err := e.imageRoot(ctx, sb)
	if err != nil {
		return err
	}
	from, err := store.OpenRegular(root.Home(), 0)
	if err != nil {
		return err
	}
	defer from.Close()
	home, err := os.OpenRoot(d.Home())
	if err != nil {
		return err
	}
	defer home.Close()
	if err := archive.Extract(from, home, archive.ExtractOptions{MaxBytes: image.MaxHome}); err != nil {
		return fmt.Errorf("begin with the image's home directory: %w", err)
	}
	return nil
}

// imageUsers tells which sandboxes and saved templates use an image, by its digest.
func (e *Engine) imageUsers() (map[string][]string, error) {
	sandboxes, err := e.Store.List()
	if err != nil {
		return nil, err
	}
	templates, err := e.Templates().List()
	if err != nil {
		return nil, err
	}
	users := map[string][]string{}
	for _, sb := range sandboxes {
		if sb.Broken != "" {
			return nil, spec.Errorf(spec.ErrConflict, "sandbox %s is broken, and what it uses is not known", sb.Name).WithHint("remove it: bothy rm %s", sb.Name)
		}
		if sb.Image != nil {
			users[sb.Image.Digest] = append(users[sb.Image.Digest], holder(sb))
		}
	}
	err = e.eachAway(func(r *record) error {
		if i := r.Sandbox.Image; i != nil {
			users[i.Digest] = append(users[i.Digest], "sandbox "+r.Sandbox.Name+", which is put away")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, t := range templates {
		if t.Broken != "" {
			return nil, spec.Errorf(spec.ErrConflict, "template %s is broken, and what it uses is not known", t.Name).WithHint("remove it: bothy template rm %s", t.Name)
		}
		if t.Base != spec.TemplateHost {
			users[t.Base] = append(users[t.Base], "template "+t.Name)
		}
	}
	return users, nil
}

// holder names a sandbox that uses an image. Those of builds nobody finds in a list, and
// they go by themselves.
func holder(sb *spec.Sandbox) string {
	if sb.Build != nil {
		return "a build that runs (" + sb.Name + ")"
	}
	return "sandbox " + sb.Name
}

// ImageInUse is an error that names who needs an image to keep its last name; nil if
// nobody does.
func (e *Engine) ImageInUse(img image.Image) error {
	users, err := e.imageUsers()
	if err != nil {
		return err
	}
	list, err := e.Images().List()
	if err != nil {
		return err
	}
	more := slices.ContainsFunc(list, func(i image.Image) bool { return i.Digest == img.Digest && i.Name != img.Name })
	if by := users[img.Digest]; len(by) > 0 && !more {
		return spec.Errorf(spec.ErrConflict, "image %s is used by %s", image.Short(cmp.Or(img.Name, img.Digest)), strings.Join(by, ", ")).
			WithHint("remove that first, or wait until it ends if it is a build")
	}
	return nil
}

// RemoveImage takes a name from an image, and removes what nothing leads to then.
// Nobody can begin to use it meanwhile.
func (e *Engine) RemoveImage(img image.Image) error {
	return e.changeImages(func(s image.Shelf) error {
		if err := e.ImageInUse(img); err != nil {
			return err
		}
		if err := s.Forget(img); err != nil {
			return err
		}
		_, err := e.sweepImages(s)
		if errors.Is(err, image.ErrHeld) {
			err = nil // it goes with the next one
		}
		return err
	})
}

// PruneImages removes what has no name and is not used, and downloads that broke off.
func (e *Engine) PruneImages() (freed int64, err error) {
	err = e.changeImages(func(s image.Shelf) error {
		parts, err := s.SweepParts()
		if err != nil {
			return err
		}
		freed, err = e.sweepImages(s)
		freed += parts
		return err
	})
	return freed, err
}

// SweepImages removes what has no name and is not used.
func (e *Engine) SweepImages() (freed int64, err error) {
	err = e.changeImages(func(s image.Shelf) error {
		freed, err = e.sweepImages(s)
		return err
	})
	return freed, err
}

func (e *Engine) sweepImages(s image.Shelf) (int64, error) {
	used, err := e.imagesInUse()
	if err != nil {
		return 0, err
	}
	return s.Sweep(used)
}

// imagesInUse are the digests of images that sandboxes, saved templates and steps of builds
// use.
func (e *Engine) imagesInUse() (map[string]bool, error) {
	users, err := e.imageUsers()
	if err != nil {
		return nil, err
	}
	bases, err := e.buildBases()
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for digest := range bases {
		used[digest] = true
	}
	for digest := range users {
		if image.CheckDigest(digest) == nil {
			used[digest] = true
		}
	}
	return used, nil
}

// imagesAtWork says what whoever has the images' lock does.
const imagesAtWork = "an image is being fetched, written or sent"

// changeImages does something while no sandbox is created, and nobody is at work on an image.
func (e *Engine) changeImages(do func(image.Shelf) error) error {
	names, err := e.Store.NamesLock(context.Background())
	if err != nil {
		return err
	}
	defer names.Unlock()
	s := e.Images()
	if _, err := os.Lstat(s.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := store.TryLock(s.Lock())
	if errors.Is(err, store.ErrLocked) {
		return spec.Errorf(spec.ErrConflict, imagesAtWork).WithHint("try again when that is done")
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return do(s)
}
