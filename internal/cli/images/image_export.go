package images

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) templateSaveCommand() *cobra.Command {
	var output, name string
	c := &cobra.Command{
		Use:     "save -o FILE|- TEMPLATE",
		Short:   "Write a template as a container image: for docker load, or -t FILE",
		Long:    "Writes an image, or a template that bothy save made over an image, to a tar archive with\nan OCI image layout, which docker load, podman load and bothy read. What the sandbox had\nchanged, and its home, is a layer over those of the image.\n\nbothy template save [-o FILE] SANDBOX NAME[:TAG] is bothy save.",
		Example: "  bothy save claude-app tools:v1\n  bothy template save -o tools.tar tools:v1\n  docker load -i tools.tar",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return spec.Errorf(spec.ErrUsage, "it takes a template; or a sandbox, and a name for its template")
			}
			return nil
		},
		ValidArgsFunction: a.TemplateNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && name != "" {
				return spec.Errorf(spec.ErrUsage, "the image of a sandbox is called as its template").
					WithHint("bothy template save -o FILE %s %s", args[0], name)
			}
			if len(args) == 2 {
				return a.saveTemplate(cmd, args[0], args[1], output)
			}
			if output == "" {
				return spec.Errorf(spec.ErrUsage, "no file is given").WithHint("bothy template save -o FILE %s", args[0])
			}
			to, err := a.ArchiveTo(output)
			if err != nil {
				return err
			}
			defer to.Close()
			img, err := a.writeImage(cmd, args[0], name, to)
			if err != nil || to.Std != nil {
				return err
			}
			return a.printExported(img)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "the file; - is standard output")
	c.Flags().StringVar(&name, "name", "", "what the image is called in it (default: as the template)")
	cmdline.CompleteFlag(c, "output", cmdline.FileNames)
	return a.JSONFlag(c)
}

// writeImage writes an image to a file. The file appears only when it is complete.
func (a *app) writeImage(cmd *cobra.Command, word, name string, to cmdline.Outfile) (img image.Image, err error) {
	e, of, ref, err := a.exported(word, name)
	if err != nil {
		return image.Image{}, err
	}
	ctx, release := cmdline.Interruptible(cmd.Context())
	defer release()
	write := func(f *os.File) (err error) {
		progress, end := a.Watcher(false).Fetching()
		defer end()
		img, err = e.Images().Write(ctx, of, ref.Name(), f, progress)
		return err
	}
	if to.Whole {
		err = to.Make(write)
		return img, err
	}
	err = to.Spool(e, func(f *os.File) error {
		defer release() // its reader may take any time
		return write(f)
	})
	return img, err
}

// exported finds the template to write or push, and the name for it.
func (a *app) exported(word, name string) (*engine.Engine, rootfs.Source, image.Reference, error) {
	e, err := a.Engine()
	if err != nil {
		return nil, rootfs.Source{}, image.Reference{}, err
	}
	of, err := e.Images().FindSource(word)
	if err != nil {
		return nil, of, image.Reference{}, err
	}
	if name == "" {
		if name = of.Image.Name; of.Saved != nil {
			name = of.Saved.Name
		}
	}
	ref, err := image.ParseReference(name)
	if err == nil && ref.Digest != "" {
		err = spec.Errorf(spec.ErrUsage, "%s has no name but a digest", word)
	}
	if err != nil {
		err = spec.Errorf(spec.ErrUsage, "what %s is to be called as an image is not known: %w", word, err).WithHint("give it a name, like team/tools:v2")
	}
	return e, of, ref, err
}

// printExported prints the image that was written or pushed.
func (a *app) printExported(img image.Image) error {
	return a.Answer(img, fmt.Sprintf("%s@%s", img.Title(), img.Digest))
}

func (a *app) templatePushCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "push TEMPLATE [IMAGE[:TAG]]", Short: "Send a template to a registry, as a container image",
		Long:    "Sends an image, or a template that bothy save made over an image, to a registry: its\nmissing parts, and then its name. You are logged in as your Docker is. Without a name an\nimage goes to where its own leads.",
		Example: "  bothy template push tools:v1 ghcr.io/acme/tools:v1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return spec.Errorf(spec.ErrUsage, "it takes a template, and where to send it, e.g. ghcr.io/acme/tools:v1")
			}
			return nil
		},
		ValidArgsFunction: a.TemplateNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 2 {
				name = args[1]
			}
			e, of, ref, err := a.exported(args[0], name)
			if err != nil {
				return err
			}
			if of.Saved != nil && name == "" {
				return spec.Errorf(spec.ErrUsage, "a template made from a sandbox does not say at which registry it belongs").
					WithHint("bothy template push %s ghcr.io/NAME/%s", args[0], of.Saved.Name)
			}
			ctx, release := cmdline.Interruptible(cmd.Context())
			defer release()
			progress, end := a.Watcher(false).Fetching()
			img, err := e.Images().Push(ctx, of, ref.Name(), progress)
			end()
			if err != nil {
				return err
			}
			return a.printExported(img)
		},
	})
}
