package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/devcontainer"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// templateOf returns the template that a word on the command line means, and its image. It fetches
// the image if necessary.
func (a *app) templateOf(ctx context.Context, e *engine.Engine, word, pull string, net *cmdline.NetworkFlags) (string, *spec.Image, error) {
	if err := checkPull(pull); err != nil {
		return "", nil, err
	}
	if word == spec.TemplateHost {
		return word, nil, nil
	}
	if err := e.Images().Hold(); err != nil { // until the sandbox exists that uses it
		return "", nil, err
	}
	if isPath(word) {
		return a.templateAt(ctx, e, word, pull, net)
	}
	if t, err := e.Templates().Shelf().Find(word); err == nil {
		if t.Base == spec.TemplateHost {
			return t.Name, nil, nil
		}
		return t.Name, &spec.Image{Name: t.BaseName, Digest: t.Base}, nil
	} else if !savedtemplate.None(err) {
		return "", nil, err
	}
	if image.CheckDigest(word) == nil { // an image without a name, which no registry can be asked for
		img, err := e.Images().Shelf().Find(image.Reference{Digest: word})
		if errors.Is(err, spec.ErrNotFound) {
			err = spec.Errorf(spec.ErrNotFound, "no image %s on this machine", word).WithHint("bothy template ls shows what there is")
		}
		if err != nil {
			return "", nil, err
		}
		return imageTemplate(img)
	}
	img, err := a.imageOf(ctx, e, word, pull, false)
	if err != nil {
		return "", nil, err
	}
	return imageTemplate(img)
}

func checkPull(pull string) error {
	if slices.Contains([]string{spec.PullMissing, spec.PullAlways, spec.PullNever, spec.PullLocal}, pull) {
		return nil
	}
	return spec.Errorf(spec.ErrUsage, "--pull %q is none of %s, %s, %s and %s", pull, spec.PullMissing, spec.PullAlways, spec.PullNever, spec.PullLocal)
}

// imageOf returns the image of a reference, and fetches it if necessary. foreign says that a
// devcontainer.json names it.
func (a *app) imageOf(ctx context.Context, e *engine.Engine, word, pull string, foreign bool) (image.Image, error) {
	ref, err := image.ParseReference(word)
	if err != nil {
		return image.Image{}, err
	}
	if pull == spec.PullLocal {
		return a.localImage(ctx, e, ref)
	}
	img, err := e.Images().Shelf().Find(ref)
	if pull == spec.PullAlways || pull == spec.PullMissing && errors.Is(err, spec.ErrNotFound) {
		return a.pullImage(ctx, e, ref, foreign)
	}
	if err == nil {
		err = notFeature(e, img)
	}
	return img, err
}

// notFeature refuses an image made from a feature of development containers. Registries have no
// image of that name or digest.
func notFeature(e *engine.Engine, img image.Image) error {
	config, err := e.Images().Config(img.Digest)
	if err != nil {
		return nil //nolint:nilerr // the rest of the image is in its root, which may exist
	}
	if of, err := devcontainer.ParseImage(config, image.FeatureLabel); err == nil && of.Feature != "" {
		return spec.Errorf(spec.ErrUsage, "%s is a feature of development containers, and no image", cmdline.ImageName(img)).
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

// isPath reports whether a word means a path, not a name.
func isPath(word string) bool {
	return strings.HasPrefix(word, ".") || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "~") || isDevcontainer(word)
}

// templateAt reads the image at a path, or builds the Dockerfile there.
func (a *app) templateAt(ctx context.Context, e *engine.Engine, path, pull string, net *cmdline.NetworkFlags) (string, *spec.Image, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, spec.Errorf(spec.ErrNotFound, "template: %w", err)
	}
	if dir, file := dockerfileAt(path, info.IsDir()); file != "" {
		img, err := a.build(ctx, e, buildFlags{file: file, pull: pull, network: *net}, dir)
		if err != nil {
			return "", nil, err
		}
		return imageTemplate(img)
	}
	if err := notBuilt(path, info.IsDir()); err != nil {
		return "", nil, err
	}
	list, err := a.fetchImages(ctx, func(ctx context.Context, progress func(image.Event)) ([]image.Image, error) {
		paths, err := a.Paths()
		if err != nil {
			return nil, err
		}
		real, err := paths.Real(path)
		if err != nil {
			return nil, err
		}
		return e.Images().LoadNameless(ctx, real, progress)
	})
	if err != nil {
		return "", nil, err
	}
	if different(list) {
		return "", nil, spec.Errorf(spec.ErrUsage, "%s holds several images", path).
			WithHint("bothy template load %s gives each its name; then name one of them", path)
	}
	return imageTemplate(list[0])
}

func different(list []image.Image) bool {
	return slices.ContainsFunc(list, func(i image.Image) bool { return i.Digest != list[0].Digest })
}

// notBuilt refuses a path that is not an image.
func notBuilt(path string, dir bool) error {
	if _, file := devcontainerAt(path); file != "" {
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

// pullImage fetches an image and shows the progress.
func (a *app) pullImage(ctx context.Context, e *engine.Engine, ref image.Reference, foreign bool) (image.Image, error) {
	list, err := a.fetchImages(ctx, func(ctx context.Context, progress func(image.Event)) ([]image.Image, error) {
		img, err := e.Images().Pull(ctx, ref, foreign, progress)
		return []image.Image{img}, err
	})
	if err != nil {
		return image.Image{}, err
	}
	return list[0], nil
}

// localImage finds an image on this machine, and shows the progress if Docker has to provide it.
func (a *app) localImage(ctx context.Context, e *engine.Engine, ref image.Reference) (image.Image, error) {
	list, err := a.fetchImages(ctx, func(ctx context.Context, progress func(image.Event)) ([]image.Image, error) {
		img, err := e.Images().FindLocal(ctx, ref, progress)
		return []image.Image{img}, err
	})
	if err != nil {
		return image.Image{}, err
	}
	return list[0], nil
}

// pullFeature fetches a feature of development containers and shows the progress.
func (a *app) pullFeature(ctx context.Context, e *engine.Engine, ref image.Reference) (image.Image, error) {
	list, err := a.fetchImages(ctx, func(ctx context.Context, progress func(image.Event)) ([]image.Image, error) {
		img, err := e.Images().PullFeature(ctx, ref, progress)
		return []image.Image{img}, err
	})
	if err != nil {
		return image.Image{}, err
	}
	return list[0], nil
}

// fetchImages runs a function that may take long, until it ends or a signal arrives.
func (a *app) fetchImages(ctx context.Context, fetch func(context.Context, func(image.Event)) ([]image.Image, error)) ([]image.Image, error) {
	ctx, release := cmdline.Interruptible(ctx)
	defer release()
	progress, end := a.imageProgress()
	list, err := fetch(ctx, progress)
	end()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return list, err
}

// imageProgress is progress for images.
func (a *app) imageProgress() (told func(image.Event), end func()) {
	live := term.IsTerminal(a.Err)
	var last image.Event
	told = func(ev image.Event) {
		done := ""
		if ev.Total > 0 {
			done = fmt.Sprintf(" %3d%% of %s", max(ev.Bytes, 0)*100/ev.Total, spec.FormatSize(ev.Total))
		}
		switch {
		case live && ev != last:
			fmt.Fprintf(a.Err, "\r\x1b[Kbothy: image: %s%s", ev.Phase, done)
		case !live && ev.Phase != last.Phase:
			a.Note("image: %s", ev.Phase)
		}
		last = ev
	}
	return told, func() {
		if live && last != (image.Event{}) {
			fmt.Fprint(a.Err, "\r\x1b[K")
		}
	}
}

func (a *app) templatePullCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "pull IMAGE...", Short: "Fetch container images, or what their tags mean now",
		Long: "Asks the registry which image is meant, fetches what is not there, compares all of it\nwith its digests, and makes the root file system that sandboxes share. You are logged\nin as your Docker is.",
		Args: cmdline.AtLeast(1, "an image, e.g. ubuntu:24.04"), ValidArgsFunction: a.TemplateNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := a.Engine()
			if err != nil {
				return err
			}
			var refs []image.Reference
			for _, word := range args { // nothing is fetched for a line with a mistake in it
				ref, err := image.ParseReference(word)
				if err != nil {
					return err
				}
				refs = append(refs, ref)
			}
			var list []image.Image
			for _, ref := range refs {
				img, err := a.pullImage(cmd.Context(), e, ref, false)
				if err != nil {
					return err
				}
				list = append(list, img)
			}
			return a.printImages(list)
		},
	})
}

// printImages prints the images that are available now.
func (a *app) printImages(list []image.Image) error {
	if a.JSON {
		return a.PrintJSON(map[string]any{"images": list})
	}
	for _, i := range list {
		fmt.Fprintln(a.Out, cmdline.ImageName(i))
	}
	return nil
}

// loadImages is template load for images.
func (a *app) loadImages(ctx context.Context, e *engine.Engine, from source, name string) error {
	list, err := a.fetchImages(ctx, func(ctx context.Context, progress func(image.Event)) ([]image.Image, error) {
		if from.spool != nil {
			return e.Images().LoadSpooled(ctx, from.spool, "standard input", name, progress)
		}
		return e.Images().Load(ctx, from.path, name, progress)
	})
	if err != nil {
		return err
	}
	a.noteClaims(list)
	return a.printImages(list)
}

// noteClaims prints the images whose names are only claimed by the file they came in.
func (a *app) noteClaims(list []image.Image) {
	for _, i := range list {
		if i.Claimed {
			registry, _, _ := strings.Cut(i.Name, "/")
			a.Note("that this is %s only the file says: -t and FROM mean it by that name from now on, and %s is not asked", cmdline.ImageName(i), registry)
		}
	}
}

func (a *app) templatePruneCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "prune", Short: "Remove images that have lost their names and that no sandbox uses, and downloads that broke off",
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			e, err := a.Engine()
			if err != nil {
				return err
			}
			freed, err := e.Images().Prune()
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(map[string]any{"freed": freed})
			}
			fmt.Fprintf(a.Out, "%s freed\n", spec.FormatSize(freed))
			return nil
		},
	})
}

// removeTemplate removes a template by name, or an image by name or ID.
func (a *app) removeTemplate(e *engine.Engine, name string, force bool) error {
	shown, err := e.Templates().Shelf().Locate(name)
	remove := func() error { return e.Templates().Shelf().Remove(shown) }
	switch {
	case savedtemplate.None(err):
		img, err := namedImage(e, name)
		if err != nil {
			return err
		}
		if err := e.Images().CheckUnused(img); err != nil {
			return err
		}
		shown, remove = cmdline.ImageName(img), func() error { return e.Images().Remove(img) }
	case err != nil:
		return err
	}
	if !force && !a.Ask("remove template %s?", shown) {
		return spec.Errorf(spec.ErrDenied, "%s was not removed", shown)
	}
	if err := remove(); err != nil {
		return err
	}
	fmt.Fprintln(a.Out, shown)
	return nil
}

// namedImage finds the image to remove by its name, or else by its ID. An image with several names
// loses them one by one.
func namedImage(e *engine.Engine, word string) (image.Image, error) {
	ref, refErr := image.ParseReference(word)
	if refErr == nil {
		if img, err := e.Images().Shelf().Find(ref); err == nil || !errors.Is(err, spec.ErrNotFound) {
			return img, err
		}
	}
	list, err := e.Images().Shelf().FindID(word)
	if errors.Is(err, spec.ErrNotFound) {
		err = spec.Errorf(spec.ErrNotFound, "no template %q", word).WithHint("bothy template ls shows what there is")
	}
	if err != nil {
		return image.Image{}, err
	}
	if len(list) > 1 {
		var names []string
		for _, i := range list {
			names = append(names, cmdline.ImageName(i))
		}
		return image.Image{}, spec.Errorf(spec.ErrConflict, "image %s has several names: %s", word, strings.Join(names, ", ")).
			WithHint("remove these: bothy template rm %s", strings.Join(names, " "))
	}
	return list[0], nil
}

func shortDigest(digest string) string {
	const enough = 19 // sha256: and 12 digits
	return digest[:min(len(digest), enough)]
}

func builtAt(i image.Image) string {
	if i.Root == nil {
		return "-"
	}
	return i.Root.Built.Local().Format(time.DateTime)
}
