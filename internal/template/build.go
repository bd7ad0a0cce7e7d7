package template

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

	"github.com/bothy-dev/bothy/internal/builder"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Build says how to build an image.
type Build struct {
	Directory string    // with the files that the Dockerfile copies, or with a devcontainer.json
	File      string    // the Dockerfile; "-" is Input; empty: that of the directory
	Input     io.Reader // a Dockerfile
	Tag       string    // name of the image: NAME[:TAG]; empty: none
	Target    string    // the stage to build; empty: the last
	Args      map[string]string
	Secrets   map[string][]byte // that steps may read, by their ids
	NoCache   bool
	Pull      string // as [spec.Request.Pull]
	Rules     policy.Block

	name    string // Tag in full
	foreign bool   // a devcontainer.json names the base image
}

// Plan is a build after all decisions that need no network.
type Plan struct {
	Build
	// Project and Devcontainer are the directory and the path of the devcontainer.json to build. If they
	// are empty, File is built.
	Project, Devcontainer string
}

// Plan decides what to build, and under which name.
func (r *Resolver) Plan(b Build) (*Plan, error) {
	if err := checkPull(b.Pull); err != nil {
		return nil, err
	}
	pl := &Plan{Build: b}
	if b.File == "" {
		pl.Project, pl.Devcontainer = DevcontainerAt(b.Directory)
	}
	if pl.Devcontainer != "" {
		if b.Target != "" {
			return nil, spec.Errorf(spec.ErrUsage, "which stage is built is said by %s", pl.Devcontainer).WithHint("to build a Dockerfile alone, name it: -f FILE")
		}
	} else if err := pl.findDockerfile(); err != nil {
		return nil, err
	}
	if b.Tag == "" {
		return pl, nil
	}
	var err error
	pl.name, err = r.nameFor(b.Tag)
	return pl, err
}

// findDockerfile finds the Dockerfile to build.
func (pl *Plan) findDockerfile() error {
	info, err := os.Stat(pl.Directory)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err != nil {
		return spec.Errorf(spec.ErrNotFound, "build %s: %w", pl.Directory, err)
	}
	if pl.File == "" {
		pl.File = dockerfileIn(pl.Directory)
	}
	if pl.File == "" {
		return spec.Errorf(spec.ErrNotFound, "%s has no Dockerfile", pl.Directory).WithHint("name it: -f FILE")
	}
	return nil
}

// Build builds the image of a plan.
func (r *Resolver) Build(ctx context.Context, pl *Plan) (image.Image, error) {
	if pl.Devcontainer != "" {
		return r.buildDevcontainer(ctx, pl.Build, pl.Project, pl.Devcontainer)
	}
	return r.buildDockerfile(ctx, pl.Build)
}

// buildDockerfile builds the image of a Dockerfile.
func (r *Resolver) buildDockerfile(ctx context.Context, b Build) (image.Image, error) {
	o := builder.Options{Context: b.Directory, Dockerfile: b.File, Target: b.Target}
	if o.Dockerfile == "-" {
		var err error
		if o.Text, err = store.ReadAll(b.Input, 1<<20); err != nil {
			return image.Image{}, fmt.Errorf("read the Dockerfile from standard input: %w", err)
		}
		o.Dockerfile = "Dockerfile"
	}
	return r.buildImage(ctx, b, o)
}

// buildImage completes the options with those of the build, and builds the image.
func (r *Resolver) buildImage(ctx context.Context, b Build, o builder.Options) (image.Image, error) {
	args := map[string]string{}
	maps.Copy(args, o.Args) // those of a file; the caller's override them
	maps.Copy(args, b.Args)
	o.Name, o.Args, o.NoCache, o.Secrets, o.Rules = b.name, args, b.NoCache, b.Secrets, b.Rules
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, ref string) (image.Image, error) { return r.baseImage(ctx, ref, b) }
	}
	o.Tell = r.Watcher.Building()
	return builder.Run(ctx, r.Engine, o)
}

// baseImage returns the image that a FROM names: a template by its name, or any other image.
func (r *Resolver) baseImage(ctx context.Context, ref string, b Build) (image.Image, error) {
	t, err := r.Engine.Templates().Shelf().Find(image.Short(ref))
	switch {
	case err == nil:
		return r.Engine.Builds().TemplateImage(ctx, t)
	case !savedtemplate.None(err):
		return image.Image{}, err
	}
	return r.findImage(ctx, ref, b.Pull, b.foreign)
}

// nameFor returns the full name for an image. It refuses the name of a saved template: an image with
// that name would never be found.
func (r *Resolver) nameFor(tag string) (string, error) {
	ref, err := image.ParseReference(tag)
	if err == nil && ref.Digest != "" {
		err = spec.Errorf(spec.ErrUsage, "a digest cannot be the name of an image")
	}
	if err != nil {
		return "", err
	}
	name, err := r.Engine.Templates().Shelf().Locate(ref.Short())
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
