package images

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/template"
	"github.com/bothy-dev/bothy/spec"
)

// resolver finds and builds templates, and shows the progress here.
func (a *app) resolver(e *engine.Engine, quiet bool) *template.Resolver {
	return &template.Resolver{Engine: e, Watcher: a.Watcher(quiet)}
}

func (a *app) templatePullCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "pull IMAGE...", Short: "Fetch container images, or what their tags mean now",
		Long: "Asks the registry which image is meant, fetches the missing parts, compares all of it\nwith its digests, and makes the root file system that sandboxes share. You are logged\nin as your Docker is.",
		Args: cmdline.AtLeast(1, "an image, e.g. ubuntu:24.04"), ValidArgsFunction: a.TemplateNames,
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			var refs []image.Reference
			for _, word := range args { // nothing is fetched for a line with a mistake in it
				ref, err := image.ParseReference(word)
				if err != nil {
					return err
				}
				refs = append(refs, ref)
			}
			ctx, release := cmdline.Interruptible(cmd.Context())
			defer release()
			var list []image.Image
			for _, ref := range refs {
				img, err := a.resolver(e, false).Pull(ctx, ref, false)
				if err != nil {
					return err
				}
				list = append(list, img)
			}
			return a.printImages(list)
		}),
	})
}

// printImages prints the images that are available now.
func (a *app) printImages(list []image.Image) error {
	if a.JSON {
		return a.PrintJSON(map[string]any{"images": list})
	}
	for _, i := range list {
		fmt.Fprintln(a.Out, i.Title())
	}
	return nil
}

// loadImages is template load for images.
func (a *app) loadImages(ctx context.Context, e *engine.Engine, from source, name string) error {
	ctx, release := cmdline.Interruptible(ctx)
	defer release()
	list, err := a.resolver(e, false).Fetch(ctx, func(ctx context.Context, progress func(image.Event)) ([]image.Image, error) {
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
			a.Note("that this is %s only the file says: -t and FROM mean it by that name from now on, and %s is not asked", i.Title(), registry)
		}
	}
}

func (a *app) templatePruneCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "prune", Short: "Remove images that have lost their names and that no sandbox uses, and downloads that broke off",
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: a.OnEngine(func(_ *cobra.Command, _ []string, e *engine.Engine) error {
			freed, err := e.Images().Prune()
			if err != nil {
				return err
			}
			return a.Answer(map[string]any{"freed": freed}, fmt.Sprintf("%s freed", spec.FormatSize(freed)))
		}),
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
		shown, remove = img.Title(), func() error { return e.Images().Remove(img) }
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
		err = spec.Errorf(spec.ErrNotFound, "no template %q", word).WithHint("list templates: bothy template ls")
	}
	if err != nil {
		return image.Image{}, err
	}
	if len(list) > 1 {
		var names []string
		for _, i := range list {
			names = append(names, i.Title())
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
