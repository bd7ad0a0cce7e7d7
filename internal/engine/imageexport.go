package engine

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

// ImageOf is the source of an export: an image, or a saved template over an image, by its name.
type ImageOf struct {
	Saved *savedtemplate.Template
	Image image.Image
}

// FindImage finds the local image or template that a name means as a sandbox's template.
func (e *Engine) FindImage(name string) (ImageOf, error) {
	if err := e.HoldImages(); err != nil { // until this process ends
		return ImageOf{}, err
	}
	t, err := e.Templates().Find(name)
	switch {
	case err == nil && t.Base == spec.TemplateHost:
		return ImageOf{}, spec.Errorf(spec.ErrUsage, "template %s lies over the programs of this machine, which are not in it: an image of it would not be whole", t.Name).
			WithHint("begin a sandbox with an image (bothy run -t IMAGE) and save that; or, for another Bothy on a machine like this one: bothy save -o FILE")
	case err == nil:
		img, err := e.Images().Find(image.Reference{Digest: t.Base})
		if errors.Is(err, spec.ErrNotFound) && e.hasBlob(t.Base) { // the image has lost its name
			img, err = image.Image{Digest: t.Base}, nil
		}
		if err != nil {
			return ImageOf{}, &spec.Error{Op: "find what template " + t.Name + " lies over", Err: noImage(&spec.Image{Name: t.BaseName, Digest: t.Base})}
		}
		return ImageOf{&t, img}, nil
	case !savedtemplate.None(err):
		return ImageOf{}, err
	}
	if ref, err := image.ParseReference(name); err == nil {
		if img, err := e.Images().Find(ref); err == nil || !errors.Is(err, spec.ErrNotFound) {
			return ImageOf{Image: img}, err
		}
	}
	list, err := e.Images().FindID(name)
	if err != nil {
		return ImageOf{}, err
	}
	return ImageOf{Image: list[0]}, nil
}

// WriteImage writes an image to a file, under a full name.
func (e *Engine) WriteImage(ctx context.Context, of ImageOf, name string, to *os.File, progress func(image.Event)) (image.Image, error) {
	x := image.Export{Name: name, To: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), to.Fd())}
	img, err := e.exportImage(ctx, of, x, progress)
	runtime.KeepAlive(to)
	return img, err
}

// PushImage sends an image to a registry, under a full name.
func (e *Engine) PushImage(ctx context.Context, of ImageOf, name string, progress func(image.Event)) (image.Image, error) {
	return e.exportImage(ctx, of, image.Export{Name: name, Push: true}, progress)
}

func (e *Engine) exportImage(ctx context.Context, of ImageOf, x image.Export, progress func(image.Event)) (image.Image, error) {
	x.Digest, x.Mount = of.Image.Digest, of.Image.Name
	order := func() (image.Image, error) {
		result, err := e.orderImage(ctx, image.Order{Export: &x}, progress)
		if err != nil {
			return image.Image{}, err
		}
		return result.Images[0], nil
	}
	if of.Saved == nil {
		return order()
	}
	var img image.Image
	err := e.Templates().Use(of.Saved.Name, func(t savedtemplate.Template, layer, home string) (err error) {
		if t.Base != x.Digest {
			return spec.Errorf(spec.ErrConflict, "template %s was saved anew just now", t.Name).WithHint("run it again")
		}
		x.Layer, x.Home, x.Places, x.Made = layer, home, t.Places, t.SavedAt
		img, err = order()
		return err
	})
	return img, err
}
