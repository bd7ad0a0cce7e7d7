package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/spec"
)

// Source is the source of an export: an image, or a template over an image.
type Source struct {
	Saved *savedtemplate.Template
	Image image.Image
}

// FindSource finds the local image or template that a name means as a sandbox's template. It holds
// the images.
func (i *Images) FindSource(name string) (Source, error) {
	if err := i.Hold(); err != nil { // until this process ends
		return Source{}, err
	}
	t, err := i.templates().Find(name)
	switch {
	case err == nil && t.Base == spec.TemplateHost:
		return Source{}, spec.Errorf(spec.ErrUsage, "template %s lies over the programs of this machine, which are not in it: an image of it would not be whole", t.Name).
			WithHint("begin a sandbox with an image (bothy run -t IMAGE) and save that; or, for another Bothy on a machine like this one: bothy save -o FILE")
	case err == nil:
		img, err := i.Shelf().Find(image.Reference{Digest: t.Base})
		if errors.Is(err, spec.ErrNotFound) && i.hasBlob(t.Base) { // the image has lost its name
			img, err = image.Image{Digest: t.Base}, nil
		}
		if err != nil {
			return Source{}, &spec.Error{Op: "find what template " + t.Name + " lies over", Err: errNoImage(&spec.Image{Name: t.BaseName, Digest: t.Base})}
		}
		return Source{&t, img}, nil
	case !savedtemplate.None(err):
		return Source{}, err
	}
	if ref, err := image.ParseReference(name); err == nil {
		if img, err := i.Shelf().Find(ref); err == nil || !errors.Is(err, spec.ErrNotFound) {
			return Source{Image: img}, err
		}
	}
	list, err := i.Shelf().FindID(name)
	if err != nil {
		return Source{}, err
	}
	return Source{Image: list[0]}, nil
}

// Write writes an image to a file, under a full name.
func (i *Images) Write(ctx context.Context, of Source, name string, to *os.File, progress func(image.Event)) (image.Image, error) {
	x := image.Export{Name: name, To: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), to.Fd())}
	img, err := i.export(ctx, of, x, progress)
	runtime.KeepAlive(to)
	return img, err
}

// Push sends an image to a registry, under a full name.
func (i *Images) Push(ctx context.Context, of Source, name string, progress func(image.Event)) (image.Image, error) {
	return i.export(ctx, of, image.Export{Name: name, Push: true}, progress)
}

func (i *Images) export(ctx context.Context, of Source, x image.Export, progress func(image.Event)) (image.Image, error) {
	x.Digest, x.Mount = of.Image.Digest, of.Image.Name
	if of.Saved == nil {
		return single(i.carryOut(ctx, image.Order{Export: &x}, progress))
	}
	var img image.Image
	err := i.templates().Use(of.Saved.Name, func(t savedtemplate.Template, layer, home string) (err error) {
		if t.Base != x.Digest {
			return spec.Errorf(spec.ErrConflict, "template %s was saved anew just now", t.Name).WithHint("run it again")
		}
		x.Layer, x.Home, x.Places, x.Made = layer, home, t.Places, t.SavedAt
		img, err = single(i.carryOut(ctx, image.Order{Export: &x}, progress))
		return err
	})
	return img, err
}
