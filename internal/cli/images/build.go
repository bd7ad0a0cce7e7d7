package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/builder"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// buildFlags are the flags of a build.
type buildFlags struct {
	file, tag, target string
	args, secrets     []string
	noCache, quiet    bool
	pull              string
	foreign           bool // the base image is named by a devcontainer.json
	network           cmdline.NetworkFlags
}

func (a *app) templateBuildCommand() *cobra.Command {
	f := buildFlags{}
	pull := false
	c := &cobra.Command{
		Use: "build [flags] DIRECTORY", Short: "Build an image from a Dockerfile or a devcontainer.json",
		Long: `Builds what the Dockerfile of a directory says. Every RUN is a command in a sandbox,
under your network policy; what a step makes is kept, and used again by the next build
that has the same step. The image is here afterwards, and can be used by its name:
bothy run -t NAME.`,
		Example: `  bothy template build -t tools:v1 .
  bothy template build -t tools:v1 -f .sandbox/Dockerfile --preset npm .
  bothy template build --secret id=npm,src=$HOME/.npmrc .`,
		Args: cmdline.Exactly(1, "a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := a.Engine()
			if err != nil {
				return err
			}
			if f.pull = spec.PullMissing; pull {
				f.pull = spec.PullAlways
			}
			ctx, release := cmdline.Interruptible(cmd.Context())
			defer release()
			var img image.Image
			if project, file := devcontainerAt(args[0]); file != "" && f.file == "" {
				img, err = a.buildDevcontainer(ctx, e, f, project, file)
			} else {
				img, err = a.build(ctx, e, f, args[0])
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(img)
			}
			fmt.Fprintln(a.Out, cmdline.ImageName(img))
			return nil
		},
	}
	fs := c.Flags()
	fs.StringVarP(&f.tag, "tag", "t", "", "name of the image: NAME[:TAG] (default none: it has its digest)")
	fs.StringVarP(&f.file, "file", "f", "", "the Dockerfile; - is standard input (default DIRECTORY/Dockerfile)")
	fs.StringArrayVar(&f.args, "build-arg", nil, "set an ARG: NAME=VALUE, or pass NAME on from your environment; repeatable")
	fs.StringVar(&f.target, "target", "", "build this stage instead of the last one")
	fs.StringArrayVar(&f.secrets, "secret", nil, "let steps read a secret: id=ID,src=FILE or id=ID,env=NAME; repeatable")
	fs.BoolVar(&f.noCache, "no-cache", false, "carry out every step, whatever earlier builds have made")
	fs.BoolVar(&pull, "pull", false, "ask registries for the images of FROM, although they are here")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "say nothing about steps, unless one fails")
	f.network.Add(c)
	cmdline.CompleteFlag(c, "file", cmdline.FileNames)
	return a.JSONFlag(c)
}

// build builds an image and prints its progress.
func (a *app) build(ctx context.Context, e *engine.Engine, f buildFlags, dir string) (image.Image, error) {
	o := builder.Options{Context: dir, Dockerfile: f.file, Target: f.target}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return image.Image{}, spec.Errorf(spec.ErrNotFound, "build %s: %w", dir, err)
	}
	switch o.Dockerfile {
	case "-":
		if o.Text, err = store.ReadAll(a.In, 1<<20); err != nil {
			return image.Image{}, fmt.Errorf("read the Dockerfile from standard input: %w", err)
		}
		o.Dockerfile = "Dockerfile"
	case "":
		if o.Dockerfile = dockerfileIn(dir); o.Dockerfile == "" {
			return image.Image{}, spec.Errorf(spec.ErrNotFound, "there is no Dockerfile in %s", dir).WithHint("name it: -f FILE")
		}
	}
	return a.buildImage(ctx, e, f, o)
}

// buildImage completes the options with the flags and builds the image.
func (a *app) buildImage(ctx context.Context, e *engine.Engine, f buildFlags, o builder.Options) (image.Image, error) {
	args, err := buildArgs(f.args)
	if err != nil {
		return image.Image{}, err
	}
	o.Args = maps.Clone(o.Args) // build arguments of a file; flags override them
	if o.Args == nil {
		o.Args = map[string]string{}
	}
	maps.Copy(o.Args, args)
	if f.tag != "" {
		if o.Name, err = tagOf(e, f.tag); err != nil {
			return image.Image{}, err
		}
	}
	o.NoCache = f.noCache
	if o.Secrets, err = a.buildSecrets(f.secrets); err != nil {
		return image.Image{}, err
	}
	if o.Rules, err = f.network.Block(); err != nil {
		return image.Image{}, err
	}
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, ref string) (image.Image, error) { return a.baseOf(ctx, e, ref, f) }
	}
	told := &buildProgress{app: a, quiet: f.quiet}
	o.Tell = told.tell
	return builder.Run(ctx, e, o)
}

// baseOf returns the image that a FROM names: a template by its name, or any other image.
func (a *app) baseOf(ctx context.Context, e *engine.Engine, ref string, f buildFlags) (image.Image, error) {
	t, err := e.Templates().Shelf().Find(image.Short(ref))
	switch {
	case err == nil:
		return e.Builds().TemplateImage(ctx, t)
	case !savedtemplate.None(err):
		return image.Image{}, err
	}
	return a.imageOf(ctx, e, ref, f.pull, f.foreign)
}

// tagOf returns the full name for an image. It refuses the name of a saved template: an image with
// that name would never be found.
func tagOf(e *engine.Engine, tag string) (string, error) {
	ref, err := image.ParseReference(tag)
	if err == nil && ref.Digest != "" {
		err = spec.Errorf(spec.ErrUsage, "a digest is no name: what an image is called may change, what it is may not")
	}
	if err != nil {
		return "", err
	}
	name, err := e.Templates().Shelf().Locate(ref.Short())
	switch {
	case err == nil:
		return "", spec.Errorf(spec.ErrConflict, "a template made from a sandbox has the name %s", name).
			WithHint("remove it (bothy template rm %s), or choose another name", name)
	case !savedtemplate.None(err):
		return "", err
	}
	return ref.Name(), nil
}

// dockerfiles are the names of a Dockerfile, by precedence.
var dockerfiles = []string{"Dockerfile", "dockerfile", "Containerfile"}

// dockerfileAt returns the Dockerfile that a path means and the directory to build in, or "" for
// none. A directory that is an image layout counts as the image.
func dockerfileAt(path string, dir bool) (context, file string) {
	if !dir {
		base := filepath.Base(path)
		if slices.Contains(dockerfiles, base) || strings.HasSuffix(base, ".Dockerfile") {
			return filepath.Dir(path), path
		}
		return "", ""
	}
	if file = dockerfileIn(path); file == "" || isLayout(path) {
		return "", ""
	}
	return path, file
}

// dockerfileIn returns the Dockerfile of a directory, even if the directory is an image layout, or
// "".
func dockerfileIn(dir string) string {
	for _, name := range dockerfiles {
		if file := filepath.Join(dir, name); isFile(file) {
			return file
		}
	}
	return ""
}

// isLayout reports whether a directory has the marker file of an image layout.
func isLayout(dir string) bool { return isFile(filepath.Join(dir, "oci-layout")) }

// isFile reports whether a path leads to a regular file, links followed.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// buildArgs parses NAME=VALUE, and NAME for a variable of the environment.
func buildArgs(list []string) (map[string]string, error) {
	args := map[string]string{}
	for _, word := range list {
		name, value, given := strings.Cut(word, "=")
		if name == "" {
			return nil, spec.Errorf(spec.ErrUsage, "--build-arg %q has no name", word)
		}
		if !given {
			if value, given = os.LookupEnv(name); !given {
				continue // a variable that is not set is left out, as Docker does
			}
		}
		args[name] = value
	}
	return args, nil
}

// maxSecret bounds a secret of a build, in bytes.
const maxSecret = 500 << 10

// buildSecrets reads the values of secrets: id=ID,src=FILE or id=ID,env=NAME.
func (a *app) buildSecrets(list []string) (map[string][]byte, error) {
	values := map[string][]byte{}
	for _, word := range list {
		bad := func(why string) error {
			return spec.Errorf(spec.ErrUsage, "--secret %s: %s", word, why).WithHint("write it so: --secret id=npm,src=FILE, or --secret id=npm,env=NAME")
		}
		fields := map[string]string{}
		for part := range strings.SplitSeq(word, ",") {
			key, value, ok := strings.Cut(part, "=")
			if key == "source" {
				key = "src"
			}
			if !ok || key != "id" && key != "src" && key != "env" {
				return nil, bad("what " + part + " means is not known")
			}
			fields[key] = value
		}
		id, file, env := fields["id"], fields["src"], fields["env"]
		switch {
		case id == "":
			return nil, bad("it has no id")
		case (file == "") == (env == ""):
			return nil, bad("it is either in a file or in a variable")
		case env != "":
			value, ok := os.LookupEnv(env)
			if !ok {
				return nil, spec.Errorf(spec.ErrNotFound, "--secret %s: there is no variable %s", word, env)
			}
			values[id] = []byte(value)
		default:
			f, err := a.OpenNamed(file)
			if err != nil {
				return nil, cmdline.NotOpened(spec.ErrNotFound, "--secret "+word, err)
			}
			values[id], err = io.ReadAll(io.LimitReader(f, maxSecret+1))
			_ = f.Close()
			if err == nil && len(values[id]) > maxSecret {
				err = bad(fmt.Sprintf("it has more than %s", spec.FormatSize(maxSecret)))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

// buildProgress prints a build's steps and the output of their commands.
type buildProgress struct {
	app   *app
	quiet bool
	lines []string // last lines of the current step, kept in a quiet build in case it fails
}

// keptLines is how many lines of a failed step a quiet build prints.
const keptLines = 20

func (p *buildProgress) tell(ev builder.Event) {
	step := "the build"
	if ev.Step > 0 {
		step = fmt.Sprintf("[%d/%d]", ev.Step, ev.Steps)
	}
	switch ev.State {
	case builder.Output:
		if p.quiet {
			p.lines = append(p.lines, ev.Text)
			p.lines = p.lines[max(0, len(p.lines)-keptLines):]
			return
		}
		fmt.Fprintf(p.app.Err, "  | %s\n", ev.Text)
	case builder.Failed:
		for _, line := range p.lines {
			fmt.Fprintf(p.app.Err, "  | %s\n", line)
		}
		p.app.Note("%s failed after %.1fs", step, ev.Seconds)
	case builder.Started:
		p.lines = nil
		p.say("%s %s", step, term.Sanitize(ev.Name))
	case builder.Cached:
		p.say("%s %s: as before", step, term.Sanitize(ev.Name))
	case builder.Waiting:
		p.say("%s waits for %s", step, term.Sanitize(ev.Text))
	case builder.Done:
		p.say("%s done in %.1fs", step, ev.Seconds)
	case builder.Warning:
		p.say("Dockerfile: %s", term.Sanitize(ev.Text))
	case builder.Making:
		p.say("making the image")
	}
}

func (p *buildProgress) say(format string, args ...any) {
	if !p.quiet {
		p.app.Note(format, args...)
	}
}
