package images

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) saveCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "save SANDBOX NAME[:TAG]",
		Short: "Make a template of a sandbox: its installed programs and its home",
		Long:  "Makes a template of what a sandbox has in its root layer and its home, for new\nsandboxes to begin with: bothy run -t NAME. Your directories, its network rules and\nthe secrets lent to it are not in it.\n\nWith -o it is written to a file, too: of a sandbox with an image as a container image,\nfor docker load, another Bothy and registries; of one over the programs of this machine,\nwhich are not in it, as a file that only you can load.",
		Args:  cmdline.Exactly(2, "a sandbox and a name for the template"), ValidArgsFunction: a.OneSandbox,
		RunE: func(cmd *cobra.Command, args []string) error { return a.saveTemplate(cmd, args[0], args[1], output) },
	}
	c.Flags().StringVarP(&output, "output", "o", "", "write it to a file, too, as an image if it is over one; - is standard output")
	cmdline.CompleteFlag(c, "output", cmdline.FileNames)
	return a.JSONFlag(c)
}

// saveTemplate makes a template from a sandbox, and writes it to a file on request.
func (a *app) saveTemplate(cmd *cobra.Command, sandbox, name, word string) error {
	var to cmdline.Outfile
	if word != "" {
		var err error
		if to, err = a.ArchiveTo(word); err != nil {
			return err
		}
		defer to.Close()
	}
	e, sb, err := a.Existing(sandbox)
	if err != nil {
		return err
	}
	t, err := e.Templates().Save(cmd.Context(), sb, name)
	if err != nil {
		return err
	}
	if word != "" {
		if err := a.export(cmd, e, t, to); err != nil || to.Std != nil {
			return err
		}
	}
	return a.Answer(t, t.Name)
}

// export writes a template to a file, which appears only when complete. A template over an image is
// written as an image; one over the host's programs can be loaded only by its owner.
func (a *app) export(cmd *cobra.Command, e *engine.Engine, t savedtemplate.Template, to cmdline.Outfile) error {
	if t.Base != spec.TemplateHost {
		_, err := a.writeImage(cmd, t.Name, "", to)
		return err
	}
	if to.Std == nil {
		a.Note("%s lies over the programs of this machine, which are not in %s: it is not a container image, and only you can load it", t.Name, to.Word)
	}
	return to.Write(func(w io.Writer) error { return e.Templates().Export(t.Name, w) })
}

func (a *app) templateCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "template", Aliases: []string{"templates"}, Short: "The templates that sandboxes begin with: images, and those made from sandboxes",
		RunE: func(*cobra.Command, []string) error { return a.listTemplates() },
	}
	c.AddCommand(a.templateLsCommand(), a.templateBuildCommand(), a.templatePullCommand(), a.templatePushCommand(), a.templateSaveCommand(), a.templateLoadCommand(), a.templateRmCommand(), a.templatePruneCommand())
	return a.JSONFlag(c)
}

func (a *app) templateLsCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List templates",
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error { return a.listTemplates() },
	})
}

func (a *app) listTemplates() error {
	e, err := a.Engine()
	if err != nil {
		return err
	}
	list, err := e.Templates().Shelf().List()
	if err != nil {
		return err
	}
	images, err := e.Images().Shelf().List()
	if err != nil {
		return err
	}
	images = slices.DeleteFunc(images, func(i image.Image) bool { return i.Name == "" && e.Builds().IsBase(i.Digest) })
	if a.JSON {
		return a.PrintJSON(map[string]any{"templates": append([]savedtemplate.Template{}, list...), "images": images})
	}
	w := a.Table()
	fmt.Fprintln(w, "TEMPLATE\tAGENT\tFROM\tSIZE\tSAVED")
	for _, t := range list {
		if t.Broken != "" {
			fmt.Fprintf(w, "%s\t-\tbroken\t-\t-\n", t.Name)
			a.Note("template %s is broken: %s (bothy template rm removes it)", t.Name, console.Printable(t.Broken))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.Name, console.Printable(t.Agent), console.Printable(t.From), spec.FormatSize(t.Bytes), t.SavedAt.Local().Format(time.DateTime))
	}
	for _, i := range images {
		fmt.Fprintf(w, "%s\t-\t%s\t%s\t%s\n", i.Title(), shortDigest(i.Digest), spec.FormatSize(i.Bytes), builtAt(i))
	}
	return w.Flush()
}

func (a *app) templateLoadCommand() *cobra.Command {
	var input, name string
	c := &cobra.Command{
		Use:   "load [FILE|DIRECTORY]",
		Short: "Read a template that bothy save, docker save or podman save wrote",
		Long:  "Reads a template from FILE, from -i FILE, or from standard input: one of bothy save,\nor a container image as docker save or podman save write it; or an image from a\nDIRECTORY with an OCI image layout. Load only what you trust: programs of a template\nrun inside like any other, but in each of its sandboxes, before your agent.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return spec.Errorf(spec.ErrUsage, "one file at a time: %q is too much", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				input = args[0]
			}
			e, err := a.Engine()
			if err != nil {
				return err
			}
			src, err := a.sourceOf(e, input)
			if err != nil {
				return err
			}
			if src.spool != nil {
				defer src.spool.Close()
			}
			if src.spool != nil || src.path != "" {
				return a.loadImages(cmd.Context(), e, src, name)
			}
			if name != "" {
				if name, err = savedtemplate.NewName(name); err != nil {
					return err
				}
			}
			from := io.NopCloser(src.rest)
			if input != "" && input != "-" {
				if from, err = a.OpenNamed(input); err != nil {
					return hostpath.NotOpened(spec.ErrNotFound, "load template", err)
				}
			} else if term.IsTerminal(a.In) {
				return spec.Errorf(spec.ErrUsage, "no file is given, and standard input is a terminal").WithHint("bothy template load FILE")
			}
			defer func() { _ = from.Close() }()
			t, err := e.Templates().Import(from, name)
			if err != nil {
				return &spec.Error{Op: "load template", Err: err}
			}
			return a.Answer(t, t.Name)
		},
	}
	c.Flags().StringVarP(&input, "input", "i", "", "read from a file")
	c.Flags().StringVar(&name, "name", "", "name it so, whatever has the name (default: what the file says)")
	cmdline.CompleteFlag(c, "input", cmdline.FileNames)
	return a.JSONFlag(c)
}

func (a *app) templateRmCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm TEMPLATE...", Aliases: []string{"remove", "delete"}, Short: "Remove templates; sandboxes keep what they were made from, images they use stay",
		Args: cmdline.AtLeast(1, "a template"), ValidArgsFunction: a.TemplateNames,
		RunE: a.OnEngine(func(_ *cobra.Command, args []string, e *engine.Engine) error {
			var errs []error
			for _, name := range args {
				errs = append(errs, a.removeTemplate(e, name, force))
			}
			return console.Join(errs)
		}),
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	return c
}
