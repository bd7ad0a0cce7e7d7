package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/archive"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/sealedfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Templates are the templates that were made from sandboxes.
type Templates struct {
	Images *Images
	Sealer Sealer
}

// Shelf returns the directory of the templates.
func (t *Templates) Shelf() savedtemplate.Shelf { return t.Images.templates() }

// Save makes a template of a sandbox's root layer and home. A running sandbox goes on meanwhile.
func (t *Templates) Save(ctx context.Context, sb *spec.Sandbox, name string) (savedtemplate.Template, error) {
	name, err := savedtemplate.NewName(name)
	if err != nil {
		return savedtemplate.Template{}, err
	}
	sandboxes := t.Images.Sandboxes
	if err := t.Images.Room.Check(); err != nil {
		return savedtemplate.Template{}, sandboxes.Failure("save sandbox "+sb.Name, sb, err)
	}
	if err := sb.CheckBroken(); err != nil {
		return savedtemplate.Template{}, err
	}
	wish := describeTemplate(sb, name)
	var made savedtemplate.Template
	t.Images.Say("saving %s as %s", sb.Name, name)
	err = sandboxes.WithSavedLayer(ctx, sb, func() (err error) {
		made, err = t.copyLayer(sb, wish)
		return err
	})
	if err != nil {
		return made, sandboxes.Failure("save sandbox "+sb.Name, sb, err)
	}
	return made, nil
}

func describeTemplate(sb *spec.Sandbox, name string) savedtemplate.Template {
	t := savedtemplate.Template{Name: name, Base: spec.TemplateHost, Agent: sb.Agent, From: sb.Name, SavedAt: time.Now().UTC(), Docker: sb.Docker}
	if sb.Image != nil {
		t.Base, t.BaseName = sb.Image.Digest, sb.Image.Name
	}
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		t.Places = append(t.Places, m.Target)
	}
	t.Places = append(t.Places, sb.Private...)
	return t
}

// saveTries is how often a layer may be replaced while it is read.
const saveTries = 5

// copyLayer makes a template of the layer and the home that a sandbox has on the disk.
func (t *Templates) copyLayer(sb *spec.Sandbox, wish savedtemplate.Template) (made savedtemplate.Template, err error) {
	d := t.Images.Store.Sandbox(sb.ID)
	layers := layer.Store{Dir: d.Layers()}
	for range saveTries {
		current, lerr := layers.Current()
		if lerr != nil {
			return made, lerr
		}
		made, err = t.Shelf().Save(wish, current, d.Home(), func(home *os.Root) error { return t.Images.Sandboxes.StripHome(sb, home) })
		if !errors.Is(err, fs.ErrNotExist) {
			break
		} // else a newer save of the layer has just replaced it
	}
	return made, err
}

// Begin returns a function that fills a new sandbox with the contents of its template.
func (t *Templates) Begin(ctx context.Context, sb *spec.Sandbox) func(store.Sandbox) error {
	return func(d store.Sandbox) error {
		if sb.Build != nil {
			return nil // it begins with the result of a step, and has no home
		}
		if sb.Template == spec.TemplateHost {
			return nil
		}
		base := spec.TemplateHost
		if i := sb.Image; i != nil {
			t.Images.Shelf().Touch(i.Digest)
			if base = i.Digest; sb.Template == i.Name || sb.Template == i.Digest {
				return t.Images.fillHome(ctx, sb, d)
			}
		}
		from, err := t.Shelf().Find(sb.Template)
		if err != nil {
			return err
		}
		if from.Base != base {
			return spec.Errorf(spec.ErrConflict, "template %s was saved anew just now", from.Name).WithHint("run it again")
		}
		if err := t.Shelf().Fill(sb.Template, layer.Store{Dir: d.Layers()}.First(), d.Home()); err != nil {
			return fmt.Errorf("begin with its template: %w", err)
		}
		return nil
	}
}

func (i *Images) fillHome(ctx context.Context, sb *spec.Sandbox, d store.Sandbox) error {
	root, err := i.Root(ctx, sb)
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

// AsksForDocker reports whether a sandbox's template asks for a Docker daemon. An image asks by its
// label. A template that was made from a sandbox asks if that sandbox had a daemon.
func (t *Templates) AsksForDocker(sb *spec.Sandbox) bool {
	if sb.Template == spec.TemplateHost {
		return false
	}
	if from, err := t.Shelf().Find(sb.Template); err == nil {
		return from.Docker
	}
	if sb.Image == nil {
		return false
	}
	r, err := t.Images.Shelf().Root(sb.Image.Digest)
	return err == nil && r.Docker
}

// Export writes a template as a file that only the owner of this state directory can read, or can
// have made. Its layer is in the wall's own format, and the wall takes it unchecked.
func (t *Templates) Export(name string, to io.Writer) error {
	return t.Sealer.Seal(to, func(sealed io.Writer) error { return t.Shelf().Export(name, sealed) })
}

// Import reads a file that Export wrote. name replaces the name of the template; it may be empty.
func (t *Templates) Import(from io.Reader, name string) (savedtemplate.Template, error) {
	if err := t.Images.Room.Check(); err != nil {
		return savedtemplate.Template{}, err
	}
	open, err := t.Sealer.Open(from)
	if errors.Is(err, sealedfile.ErrNone) {
		err = spec.Errorf(spec.ErrUsage, "it is neither an image nor a template that bothy save -o has sealed").
			WithHint("files that others made must be images: bothy save -o of a sandbox with an image (-t IMAGE) makes one")
	}
	if err != nil {
		return savedtemplate.Template{}, err
	}
	return t.Shelf().Import(open, name)
}
