package rootfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"

	gateway "github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/helper"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/nsproc"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Images are the container images of a state directory.
type Images struct {
	Store     *store.Store
	Room      Room
	Sandboxes Sandboxes
	Held      *Hold
	// Say receives news for the user.
	Say func(format string, args ...any)
}

// Shelf returns the directory of the images.
func (i *Images) Shelf() image.Shelf {
	uid, gid := nsproc.IDs()
	return image.Shelf{Dir: i.Store.Images(), UID: uid, GID: gid}
}

// Pull asks a registry for the image of a reference, and fetches its missing parts. foreign says that a
// file of a project names the image: see [image.Order].
func (i *Images) Pull(ctx context.Context, r image.Reference, foreign bool, progress func(image.Event)) (image.Image, error) {
	return single(i.replace(ctx, image.Order{Pull: r.String(), Foreign: foreign}, progress))
}

// replace carries out an order whose image may take a name from another one.
func (i *Images) replace(ctx context.Context, o image.Order, progress func(image.Event)) (image.Result, error) {
	result, err := i.addWithin(ctx, o, progress)
	if err == nil && result.Notice != "" {
		i.Say("%s", result.Notice)
	}
	if err == nil && result.Fresh {
		i.sweepSoon() // the image that had the name before
	}
	return result, err
}

func single(result image.Result, err error) (image.Image, error) {
	if err != nil {
		return image.Image{}, err
	}
	return result.Images[0], nil
}

// FindLocal finds an image on this machine. Docker's image of a name wins over ours, which may be an
// older copy of it: people build with one and run with the other.
func (i *Images) FindLocal(ctx context.Context, r image.Reference, progress func(image.Event)) (image.Image, error) {
	img, err := i.askDocker(ctx, r, progress)
	if errors.Is(err, spec.ErrNotFound) {
		err = spec.Errorf(spec.ErrNotFound, "%w", err).
			WithHint("docker save %[1]s | bothy template load brings it from Docker; bothy template build -t %[1]s DIRECTORY builds it here", r.Short())
	}
	return img, err
}

// askDocker gets an image from Docker, or from the shelf if Docker does not exist.
func (i *Images) askDocker(ctx context.Context, r image.Reference, progress func(image.Event)) (image.Image, error) {
	socket := image.DockerSocket()
	if socket == "" || r.Digest != "" { // a digest means the same image everywhere
		img, err := i.Shelf().Find(r)
		if err != nil && r.Digest == "" {
			err = spec.Errorf(spec.ErrNotFound, "%w, and no socket on which Docker could be asked (DOCKER_HOST)", err)
		}
		return img, err
	}
	return single(i.replace(ctx, image.Order{Docker: r.String(), Socket: socket}, progress))
}

// PullFeature fetches a feature of development containers, as an image. Files of projects name
// them.
func (i *Images) PullFeature(ctx context.Context, r image.Reference, progress func(image.Event)) (image.Image, error) {
	return single(i.addWithin(ctx, image.Order{Feature: r.String(), Foreign: true}, progress))
}

// Load reads images from an archive, or from a directory with an image layout. name replaces the
// name of a single image; it may be empty.
func (i *Images) Load(ctx context.Context, path, name string, progress func(image.Event)) ([]image.Image, error) {
	result, err := i.addWithin(ctx, image.Order{Load: path, Name: name}, progress)
	return result.Images, err
}

// LoadSpooled is Load from a file without a name (see [image.Shelf.Spool]). Messages call it from.
func (i *Images) LoadSpooled(ctx context.Context, f *os.File, from, name string, progress func(image.Event)) ([]image.Image, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
	result, err := i.addWithin(ctx, image.Order{Load: path, From: from, Name: name}, progress)
	runtime.KeepAlive(f)
	return result.Images, err
}

// LoadNameless is Load for images that the caller uses by their digests. It takes no names: the
// file may claim any.
func (i *Images) LoadNameless(ctx context.Context, path string, progress func(image.Event)) ([]image.Image, error) {
	result, err := i.addWithin(ctx, image.Order{Load: path, Nameless: true}, progress)
	return result.Images, err
}

// addWithin carries out an order if the disk has room for its result. A result that does not fit leaves
// nothing.
func (i *Images) addWithin(ctx context.Context, o image.Order, progress func(image.Event)) (image.Result, error) {
	left, err := i.Room.Left()
	if err != nil {
		return image.Result{}, err
	}
	if i.Room.Limit > 0 {
		o.Room = &image.Room{Left: left, Limit: i.Room.Limit}
	}
	result, err := i.carryOut(ctx, o, progress)
	if o.Room != nil && errors.Is(err, spec.ErrConflict) {
		i.sweepSoon()
	}
	return result, err
}

// carryOut has the process that fetches images carry out an order.
func (i *Images) carryOut(ctx context.Context, o image.Order, progress func(image.Event)) (image.Result, error) {
	o.State = i.Store.Path()
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

// Root returns the root of a sandbox's image, or nil if the sandbox has no image. It makes a missing
// root again if the image itself is still on this machine.
func (i *Images) Root(ctx context.Context, sb *spec.Sandbox) (*image.Root, error) {
	if sb.Image == nil {
		return nil, nil
	}
	if err := image.CheckDigest(sb.Image.Digest); err != nil {
		return nil, err
	}
	root, err := i.Shelf().UsableRoot(sb.Image.Digest)
	if errors.Is(err, image.ErrDamagedRoot) {
		i.Say("image %s: %v", cmp.Or(image.Short(sb.Image.Name), sb.Image.Digest), err)
	}
	if errors.Is(err, fs.ErrNotExist) && i.hasBlob(sb.Image.Digest) { // damaged, of another version, or for other ids
		i.Say("making the root of image %s again", cmp.Or(image.Short(sb.Image.Name), sb.Image.Digest))
		var result image.Result
		if result, err = i.carryOut(ctx, image.Order{Build: sb.Image.Digest}, nil); err == nil {
			root, err = i.Shelf().Root(result.Images[0].Digest)
			return &root, err
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errNoImage(sb.Image)
	}
	return &root, err
}

// hasBlob reports whether the manifest of an image is on this machine.
func (i *Images) hasBlob(digest string) bool {
	_, err := os.Lstat(i.Shelf().Blob(digest))
	return err == nil
}

// errNoImage is the error for an image that this machine does not have any more.
func errNoImage(i *spec.Image) error {
	if i.Name == "" { // it came from a file
		return spec.Errorf(spec.ErrNotFound, "the image %s is not on this machine any more", i.Digest).
			WithHint("load it again from the file it was in: bothy template load FILE")
	}
	return spec.Errorf(spec.ErrNotFound, "the image %s (%s) is not on this machine any more", image.Short(i.Name), i.Digest).
		WithHint("fetch it again: bothy template pull %s", exactReference(i))
}

// exactReference returns the reference that means just this image.
func exactReference(i *spec.Image) string {
	r, err := image.ParseReference(i.Name)
	if err != nil {
		return "NAME@" + i.Digest
	}
	r.Tag, r.Digest = "", i.Digest
	return r.Short()
}

// maxConfig bounds an image's configuration, in bytes.
const maxConfig = 8 << 20

// Config returns the configuration of a local image.
func (i *Images) Config(digest string) ([]byte, error) {
	if err := image.CheckDigest(digest); err != nil {
		return nil, err
	}
	var m image.Manifest
	if err := store.ReadJSON(i.Shelf().Blob(digest), &m); err != nil {
		return nil, err
	}
	if err := image.CheckDigest(m.Config.Digest); err != nil {
		return nil, err
	}
	return store.ReadFile(i.Shelf().Blob(m.Config.Digest), 0, maxConfig)
}

// Hold keeps images from being removed while a sandbox with one is about to be created. The zero
// value holds none.
type Hold struct {
	mu    sync.Mutex
	lock  *store.Lock
	stale bool // an image may have lost its name since
}

// Hold keeps all images until [Images.Release], or until this process ends. Callers call it before
// they look for the image.
func (i *Images) Hold() error {
	i.Held.mu.Lock()
	defer i.Held.mu.Unlock()
	if i.Held.lock != nil {
		return nil
	}
	lock, err := i.Shelf().Hold()
	i.Held.lock = lock
	return err
}

// sweepLater reports whether images are held. If so, they are swept when they are released.
func (i *Images) sweepLater() bool {
	i.Held.mu.Lock()
	defer i.Held.mu.Unlock()
	held := i.Held.lock != nil
	i.Held.stale = i.Held.stale || held
	return held
}

// sweepSoon sweeps the images now, or when they are released.
func (i *Images) sweepSoon() {
	if !i.sweepLater() {
		_, _ = i.Sweep()
	}
}

// Release releases the images when the sandbox is created or found. The caller does not hold the
// names lock.
func (i *Images) Release() {
	i.Held.mu.Lock()
	lock, stale := i.Held.lock, i.Held.stale
	i.Held.lock, i.Held.stale = nil, false
	i.Held.mu.Unlock()
	if lock != nil {
		lock.Unlock()
	}
	if stale {
		_, _ = i.Sweep()
	}
}
