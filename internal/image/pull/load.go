package pull

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// files are the files of an archive or a directory, by their clean names.
type files interface {
	// Open returns a file and its size. A missing file is fs.ErrNotExist.
	Open(name string) (io.ReadCloser, int64, error)
	Close() error
}

func (w *worker) loadPath(ctx context.Context) ([]image.Image, error) {
	w.progress(image.Event{Phase: image.Reading})
	from, err := w.openPath(ctx, w.order.Load)
	if err != nil {
		return nil, err
	}
	return w.loadFrom(ctx, from)
}

// loadFrom reads the images of an archive or a directory, and closes it.
func (w *worker) loadFrom(ctx context.Context, from files) ([]image.Image, error) {
	defer func() { _ = from.Close() }()
	list, err := w.loadLayout(ctx, from)
	if errors.Is(err, fs.ErrNotExist) {
		list, err = w.loadDocker(ctx, from)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, spec.Errorf(spec.ErrUsage, "it holds no image: %w", err).
			WithHint("docker save, podman save and an OCI image layout are understood")
	}
	return list, err
}

func (w *worker) openPath(ctx context.Context, name string) (files, error) {
	open := func() (*os.File, error) { return hostpath.OpenReal(name, unix.O_RDONLY|unix.O_NONBLOCK) }
	if w.order.From != "" { // the CLI passes an open file without a name
		open = func() (*os.File, error) { return os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) }
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		defer f.Close()
		root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		return directory{root}, err
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if f, err = w.decompressFile(ctx, f); err != nil {
		return nil, err
	}
	return indexArchive(ctx, f)
}

// decompressFile returns an uncompressed archive: a nameless copy, if the file was compressed.
func (w *worker) decompressFile(ctx context.Context, f *os.File) (*os.File, error) {
	r, done, err := decompress(&counted{ctx, f, func(int64) {}})
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	if done == nil {
		_, err := f.Seek(0, io.SeekStart)
		return f, err
	}
	defer done()
	defer f.Close()
	return w.shelf.Spool(&roomy{r, w.order.Room})
}

// directory is an image layout in a directory.
type directory struct{ *os.Root }

func (d directory) Open(name string) (io.ReadCloser, int64, error) {
	f, err := d.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would block
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// archive is a tar file with the positions of its files.
type archive struct {
	f  *os.File
	at map[string][2]int64 // offset and size
}

// Bounds of an archive: the number of files, and the bytes of each name.
const (
	maxFiles = 1 << 16
	maxName  = 4 << 10
)

// maxLoaded bounds how many images, or names of them, are loaded at once: each is recorded separately,
// and each time the list of images is written again.
const maxLoaded = 1000

func errMany() error {
	return spec.Errorf(spec.ErrDenied, "it holds more than %d images or names of them", maxLoaded)
}

// indexArchive finds the files of an archive, which it closes after an error. A link, as old versions of Docker
// write it, means its target.
func indexArchive(ctx context.Context, f *os.File) (a *archive, err error) {
	a = &archive{f, map[string][2]int64{}}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	links := map[string]string{}
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err == nil && (len(a.at)+len(links) >= maxFiles || len(h.Name)+len(h.Linkname) > maxName) {
			err = errors.New("it has too many files, or names that are too long")
		}
		if err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "this is not a complete archive of an image: %w", err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		name := strings.Clone(path.Clean(h.Name)) // Clone, because the name is part of the header
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			a.at[name] = [2]int64{at, h.Size}
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), h.Linkname)
		}
	}
	for name, to := range links {
		if there, ok := a.at[to]; ok {
			a.at[name] = there
		}
	}
	return a, nil
}

func (a *archive) Open(name string) (io.ReadCloser, int64, error) {
	at, ok := a.at[path.Clean(name)]
	if !ok {
		return nil, 0, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(io.NewSectionReader(a.f, at[0], at[1])), at[1], nil
}

func (a *archive) Close() error { return a.f.Close() }

func readSmall(from files, name string, most int64) ([]byte, error) {
	r, _, err := from.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return store.ReadAll(r, most)
}

func blobName(digest string) string { return "blobs/sha256/" + image.Hex(digest) }

func (w *worker) loadLayout(ctx context.Context, from files) ([]image.Image, error) {
	top, err := readSmall(from, "index.json", maxManifest)
	if err != nil {
		return nil, err
	}
	i := image.Index{}
	if err := decode(top, &i); err != nil {
		return nil, spec.Errorf(spec.ErrDenied, "its index.json cannot be read: %w", err)
	}
	if len(i.Manifests) > maxLoaded {
		return nil, errMany()
	}
	var list []found
	var others error
	images := imagesOf(i.Manifests)
	for _, d := range images {
		f, err := w.loadOne(ctx, from, d, len(images) == 1)
		switch {
		case errors.Is(err, errOtherPlatform) || len(images) > 1 && errors.Is(err, spec.ErrNotFound):
			others = err
		case err != nil:
			return nil, err
		default:
			list = append(list, f)
		}
	}
	if len(list) == 0 && others == nil {
		others = spec.Errorf(spec.ErrUsage, "it holds no image")
	}
	if len(list) == 0 {
		return nil, others
	}
	return w.finishAll(ctx, list)
}

// found is a loaded image whose blobs are on the shelf, and its future name.
type found struct {
	resolved
	name    string
	claimed bool
}

// finishAll gives all images of an archive or a directory their names, or none of them.
func (w *worker) finishAll(ctx context.Context, all []found) (list []image.Image, err error) {
	for i := range all {
		if err := w.claimName(&all[i]); err != nil {
			return nil, err
		}
	}
	for _, f := range all {
		img, err := w.addToShelf(ctx, f.resolved, f.name, f.claimed)
		if err != nil {
			return nil, err
		}
		list = append(list, img)
	}
	return list, nil
}

// claimName checks the name that an image gives itself. It must not take the name of an image that was
// fetched or built under it, or that the user named. The author of the file may have written anything.
func (w *worker) claimName(f *found) error {
	if f.name == "" || w.order.Name != "" {
		return nil
	}
	ref, err := image.ParseReference(f.name)
	if err != nil {
		return err
	}
	f.claimed = true
	img, err := w.shelf.Find(ref)
	switch {
	case errors.Is(err, spec.ErrNotFound) || err == nil && img.Claimed:
		return nil
	case err == nil && img.Digest == f.Digest:
		f.claimed = false // it is the same image, so the name is confirmed
	case err == nil:
		err = spec.Errorf(spec.ErrConflict, "it says that it is %s, and is not the image that is here under this name", ref.Short()).
			WithHint("--name NAME calls it as you say; or remove that image first: bothy template rm %s", ref.Short())
	}
	return err
}

var errOtherPlatform = errors.New("for another platform")

func (w *worker) loadOne(ctx context.Context, from files, d image.Descriptor, only bool) (found, error) {
	if p := d.Platform; p != nil {
		if fits, _ := p.Fits(); !fits {
			return found{}, &spec.Error{Class: errOtherPlatform, Err: wrongPlatform(p.String())}
		}
	}
	r, err := resolve(ctx, d, func(_ context.Context, d image.Descriptor) ([]byte, error) {
		b, err := readSmall(from, blobName(d.Digest), maxManifest)
		if err != nil {
			return nil, errMissing(err)
		}
		return checkDigest(d, b)
	})
	if err != nil {
		return found{}, err
	}
	name, err := w.nameOf(d.Annotations, only)
	if err != nil {
		return found{}, err
	}
	told := w.counter(image.Reading, totalSize(r.manifest))
	for _, b := range append(r.manifest.Layers, r.manifest.Config) {
		if err := w.copyBlob(ctx, from, blobName(b.Digest), b, told); err != nil {
			return found{}, err
		}
	}
	return found{resolved: r, name: name}, w.storeText(r.Descriptor, r.text)
}

// errMissing reports that a file referred to by others is missing.
func errMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return spec.Errorf(spec.ErrDenied, "it is not whole: %s", err)
	}
	return err
}

// nameOf returns the name under which an image is loaded: the requested one, or else its own if that is
// a full name.
func (w *worker) nameOf(annotations map[string]string, only bool) (string, error) {
	if w.order.Nameless {
		return "", nil
	}
	name := w.order.Name
	if name != "" && !only {
		return "", spec.Errorf(spec.ErrUsage, "it holds several images, which cannot have one name")
	}
	for _, key := range []string{image.FullNameKey, image.NameKey} {
		if own := annotations[key]; name == "" && strings.ContainsAny(own, ":/") {
			name = own
		}
	}
	if name == "" {
		return "", nil
	}
	ref, err := parseName(name)
	if err != nil && w.order.Name == "" {
		return "", nil // its own name cannot be used
	}
	return ref.Name(), err
}

func (w *worker) copyBlob(ctx context.Context, from files, name string, d image.Descriptor, told func(int64)) error {
	if w.hasBlob(d) {
		told(d.Size)
		return nil
	}
	err := w.retainBlob(blob{d, func() (io.ReadCloser, error) {
		r, size, err := from.Open(name)
		if err != nil {
			return nil, errMissing(err)
		}
		if size != d.Size {
			_ = r.Close()
			return nil, errMismatch
		}
		return body{&counted{ctx, r, told}, r}, nil
	}})
	if errors.Is(err, errMismatch) {
		return tampered(d)
	}
	return err
}

func describe(mediaType string, text []byte) image.Descriptor {
	return image.Descriptor{MediaType: mediaType, Digest: image.DigestOf(text), Size: int64(len(text))}
}

// digestOf returns the digest of a compressed layer. docker save only tells the digest of the uncompressed
// content.
func digestOf(ctx context.Context, from files, name string) (string, error) {
	r, _, err := from.Open(name)
	if err != nil {
		return "", errMissing(err)
	}
	defer func() { _ = r.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, &counted{ctx, r, func(int64) {}})
	return image.Digest(sum.Sum(nil)), err
}
