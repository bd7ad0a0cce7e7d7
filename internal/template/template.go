// Package template finds the root file system that a new sandbox starts from: a saved template, an image, or
// the directory of a Dockerfile or a devcontainer.json. It fetches or builds an image if necessary.
package template

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/builder"
	"github.com/bothy-dev/bothy/internal/devcontainer"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/spec"
)

// Resolver finds and builds the templates of one state directory.
type Resolver struct {
	Engine  *engine.Engine
	Watcher Watcher
}

// Watcher is told of the progress.
type Watcher interface {
	// Note receives a finding that a person should know.
	Note(format string, args ...any)
	// Fetching returns a function that receives the progress of an image, and one to call at its end.
	Fetching() (step func(image.Event), end func())
	// Building returns a function that receives the progress of a build.
	Building() func(builder.Event)
}

// Wish says which template a sandbox starts from.
type Wish struct {
	Word  string // as [spec.Request.Template]
	Pull  string // as [spec.Request.Pull]
	Rules policy.Block
}

// Resolve sets the template of sb to the one that a person wishes. It holds an image until sb exists.
func (r *Resolver) Resolve(ctx context.Context, w Wish, sb *spec.Sandbox) (err error) {
	if IsPath(w.Word) {
		if project, file := DevcontainerAt(w.Word); file != "" {
			return r.fromDevcontainer(ctx, sb, project, file, Build{Pull: w.Pull, Rules: w.Rules})
		}
	}
	sb.Template, sb.Image, err = r.findNamed(ctx, w)
	return err
}

// findNamed returns the template that a word means, and its image. It fetches the image if necessary.
func (r *Resolver) findNamed(ctx context.Context, w Wish) (string, *spec.Image, error) {
	if err := checkPull(w.Pull); err != nil {
		return "", nil, err
	}
	if w.Word == spec.TemplateHost {
		return w.Word, nil, nil
	}
	if err := r.Engine.Images().Hold(); err != nil { // until the sandbox exists that uses it
		return "", nil, err
	}
	if IsPath(w.Word) {
		return r.atPath(ctx, w)
	}
	if t, err := r.Engine.Templates().Shelf().Find(w.Word); err == nil {
		if t.Base == spec.TemplateHost {
			return t.Name, nil, nil
		}
		return t.Name, &spec.Image{Name: t.BaseName, Digest: t.Base}, nil
	} else if !savedtemplate.None(err) {
		return "", nil, err
	}
	if image.CheckDigest(w.Word) == nil { // an image without a name, which no registry can be asked for
		img, err := r.Engine.Images().Shelf().Find(image.Reference{Digest: w.Word})
		if errors.Is(err, spec.ErrNotFound) {
			err = spec.Errorf(spec.ErrNotFound, "no image %s on this machine", w.Word).WithHint("bothy template ls shows what there is")
		}
		if err != nil {
			return "", nil, err
		}
		return imageTemplate(img)
	}
	img, err := r.findImage(ctx, w.Word, w.Pull, false)
	if err != nil {
		return "", nil, err
	}
	return imageTemplate(img)
}

func checkPull(pull string) error {
	if slices.Contains([]string{spec.PullMissing, spec.PullAlways, spec.PullNever, spec.PullLocal}, pull) {
		return nil
	}
	return spec.Errorf(spec.ErrUsage, "%s %q is none of %s, %s, %s and %s", spec.Option("pull"), pull, spec.PullMissing, spec.PullAlways, spec.PullNever, spec.PullLocal)
}

// findImage returns the image of a reference, and fetches it if necessary. foreign says that a
// devcontainer.json names it.
func (r *Resolver) findImage(ctx context.Context, word, pull string, foreign bool) (image.Image, error) {
	ref, err := image.ParseReference(word)
	if err != nil {
		return image.Image{}, err
	}
	if pull == spec.PullLocal {
		return r.fetchOne(ctx, func(ctx context.Context, progress func(image.Event)) (image.Image, error) {
			return r.Engine.Images().FindLocal(ctx, ref, progress)
		})
	}
	img, err := r.Engine.Images().Shelf().Find(ref)
	if pull == spec.PullAlways || pull == spec.PullMissing && errors.Is(err, spec.ErrNotFound) {
		return r.Pull(ctx, ref, foreign)
	}
	if err == nil {
		err = r.notFeature(img)
	}
	return img, err
}

// notFeature refuses an image made from a feature of development containers. Registries have no
// image of that name or digest.
func (r *Resolver) notFeature(img image.Image) error {
	config, err := r.Engine.Images().Config(img.Digest)
	if err != nil {
		return nil //nolint:nilerr // the rest of the image is in its root, which may exist
	}
	if of, err := devcontainer.ParseImage(config, image.FeatureLabel); err == nil && of.Feature != "" {
		return spec.Errorf(spec.ErrUsage, "%s is a feature of development containers, and no image", img.Title()).
			WithHint("a devcontainer.json names it under features")
	}
	return nil
}

// imageTemplate returns the names by which a sandbox refers to an image.
func imageTemplate(img image.Image) (string, *spec.Image, error) {
	name := img.Name
	if name == "" {
		name = img.Digest
	}
	return name, &spec.Image{Name: img.Name, Digest: img.Digest}, nil
}

// IsPath reports whether a word means a path, not a name.
func IsPath(word string) bool {
	return strings.HasPrefix(word, ".") || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "~") || isDevcontainer(word)
}

// atPath reads the image at a path, or builds the Dockerfile there.
func (r *Resolver) atPath(ctx context.Context, w Wish) (string, *spec.Image, error) {
	path := w.Word
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, spec.Errorf(spec.ErrNotFound, "template: %w", err)
	}
	if dir, file := dockerfileAt(path, info.IsDir()); file != "" {
		img, err := r.buildDockerfile(ctx, Build{Directory: dir, File: file, Pull: w.Pull, Rules: w.Rules})
		if err != nil {
			return "", nil, err
		}
		return imageTemplate(img)
	}
	if err := CheckNotBuilt(path, info.IsDir()); err != nil {
		return "", nil, err
	}
	list, err := r.Fetch(ctx, func(ctx context.Context, progress func(image.Event)) ([]image.Image, error) {
		paths, err := r.Engine.Paths()
		if err != nil {
			return nil, err
		}
		real, err := paths.Real(path)
		if err != nil {
			return nil, err
		}
		return r.Engine.Images().LoadNameless(ctx, real, progress)
	})
	if err != nil {
		return "", nil, err
	}
	if slices.ContainsFunc(list, func(i image.Image) bool { return i.Digest != list[0].Digest }) {
		return "", nil, spec.Errorf(spec.ErrUsage, "%s holds several images", path).
			WithHint("bothy template load %s gives each its name; then name one of them", path)
	}
	return imageTemplate(list[0])
}

// CheckNotBuilt refuses a path from which an image is built, or that cannot be an image.
func CheckNotBuilt(path string, dir bool) error {
	if _, file := DevcontainerAt(path); file != "" {
		return spec.Errorf(spec.ErrUsage, "%s is a devcontainer.json, and no image", file).WithHint("build it: bothy template build %s", path)
	}
	if !dir {
		if _, file := dockerfileAt(path, false); file != "" {
			return spec.Errorf(spec.ErrUsage, "%s is a Dockerfile, and no image", path).WithHint("build it: bothy template build -f %s DIRECTORY", path)
		}
		return nil
	}
	if isLayout(path) {
		return nil
	}
	if dockerfileIn(path) != "" {
		return spec.Errorf(spec.ErrUsage, "%s has a Dockerfile, and no image", path).WithHint("build it: bothy template build %s", path)
	}
	return spec.Errorf(spec.ErrUsage, "template %s: the directory has no Dockerfile, no devcontainer.json and, as it has no oci-layout, no image layout", path).
		WithHint("host, a template of bothy template ls, an image NAME[:TAG], an archive of docker save, and a directory with one of these can be used")
}

// Pull fetches an image. foreign says that a devcontainer.json names it.
func (r *Resolver) Pull(ctx context.Context, ref image.Reference, foreign bool) (image.Image, error) {
	return r.fetchOne(ctx, func(ctx context.Context, progress func(image.Event)) (image.Image, error) {
		return r.Engine.Images().Pull(ctx, ref, foreign, progress)
	})
}

func (r *Resolver) fetchOne(ctx context.Context, fetch func(context.Context, func(image.Event)) (image.Image, error)) (image.Image, error) {
	list, err := r.Fetch(ctx, func(ctx context.Context, progress func(image.Event)) ([]image.Image, error) {
		img, err := fetch(ctx, progress)
		return []image.Image{img}, err
	})
	if err != nil {
		return image.Image{}, err
	}
	return list[0], nil
}

// Fetch calls a function that fetches images, and reports its progress. The cause of a canceled ctx is its
// error.
func (r *Resolver) Fetch(ctx context.Context, fetch func(context.Context, func(image.Event)) ([]image.Image, error)) ([]image.Image, error) {
	progress, end := r.Watcher.Fetching()
	list, err := fetch(ctx, progress)
	end()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return list, err
}
