package template

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/builder"
	"github.com/bothy-dev/bothy/internal/devcontainer"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Location of a devcontainer.json.
const (
	devcontainerDir  = ".devcontainer"
	devcontainerFile = "devcontainer.json"
)

func isDevcontainer(path string) bool {
	base := filepath.Base(path)
	return base == devcontainerFile || base == "."+devcontainerFile
}

// DevcontainerAt returns the devcontainer.json that a path means and the directory of its project,
// or "" for none. The path may be the file, the directory of the file, or the project if that has no
// Dockerfile or image.
func DevcontainerAt(path string) (project, file string) {
	info, err := os.Stat(path)
	if err != nil {
		return "", ""
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", ""
	}
	if !info.IsDir() {
		if isDevcontainer(abs) {
			return projectOf(abs), abs
		}
		return "", ""
	}
	there := func(name string) bool { return isFile(filepath.Join(abs, name)) }
	if isLayout(abs) {
		return "", ""
	}
	if there(devcontainerFile) {
		return projectOf(filepath.Join(abs, devcontainerFile)), filepath.Join(abs, devcontainerFile)
	}
	if dockerfileIn(abs) != "" {
		return "", ""
	}
	for _, name := range []string{devcontainerDir + "/" + devcontainerFile, "." + devcontainerFile} {
		if there(name) {
			return abs, filepath.Join(abs, name)
		}
	}
	return "", ""
}

// projectOf returns the project directory of a devcontainer.json: the parent of .devcontainer, which
// may hold the file in a directory of its own, or else the file's directory.
func projectOf(file string) string {
	dir := filepath.Dir(file)
	for at, up := dir, 0; up < 2; at, up = filepath.Dir(at), up+1 {
		if filepath.Base(at) == devcontainerDir {
			return filepath.Dir(at)
		}
	}
	return dir
}

// devcontainerBuild makes a template from a devcontainer.json. It opens nothing outside the
// project's directory, and no link may lead out of that.
type devcontainerBuild struct {
	resolver *Resolver
	build    Build
	project  string   // resolved path
	dir      string   // of the file, relative to the project
	root     *os.Root // of the project
	place    devcontainer.Place

	file     *devcontainer.File
	features []*devcontainer.Feature
	images   map[string]image.Image // of features from registries, by ID
	settings devcontainer.Settings
}

// openDevcontainer reads a devcontainer.json and the metadata of its features.
func (r *Resolver) openDevcontainer(ctx context.Context, project, file, inside string, b Build) (*devcontainerBuild, error) {
	if err := checkPull(b.Pull); err != nil {
		return nil, err
	}
	paths, err := r.Engine.Paths()
	if err != nil {
		return nil, err
	}
	real, err := paths.Real(project)
	if err != nil {
		return nil, hostpath.NotOpened(spec.ErrNotFound, "template", err)
	}
	rel, err := filepath.Rel(project, file)
	if err != nil {
		return nil, err
	}
	b.foreign = true
	d := &devcontainerBuild{resolver: r, build: b, project: real, dir: filepath.Dir(rel), images: map[string]image.Image{}}
	d.place = devcontainer.Place{File: filepath.Join(real, rel), Project: real, Inside: inside}
	if d.root, err = hostpath.OpenRealRoot(real); err != nil {
		return nil, spec.Errorf(spec.ErrNotFound, "template: %w", err)
	}
	err = d.parse(rel)
	if err == nil {
		err = d.parseFeatures(ctx)
	}
	if err != nil {
		d.root.Close()
		return nil, err
	}
	return d, nil
}

func (b *devcontainerBuild) parse(rel string) error {
	text, err := b.read(rel)
	if err != nil {
		return err
	}
	b.file, err = devcontainer.Parse(text, b.place)
	return err
}

// read reads a small file of the project.
func (b *devcontainerBuild) read(rel string) ([]byte, error) {
	f, err := b.root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, spec.Errorf(spec.ErrNotFound, "%s does not exist", filepath.Join(b.project, rel))
	}
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "read %s: %w", filepath.Join(b.project, rel), err).
			WithHint("no link is followed out of %s", b.project)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, spec.Errorf(spec.ErrUsage, "%s is not a regular file", filepath.Join(b.project, rel))
	}
	text, err := store.ReadAll(f, devcontainer.MaxSize)
	if err != nil {
		err = spec.Errorf(spec.ErrUsage, "%s: %w", filepath.Join(b.project, rel), err)
	}
	return text, err
}

func (b *devcontainerBuild) parseFeatures(ctx context.Context) error {
	var list []*devcontainer.Feature
	for _, u := range b.file.Features {
		text, err := b.aboutFeature(ctx, u)
		if err != nil {
			return &spec.Error{Op: "feature " + term.Sanitize(u.ID), Err: err, Hint: spec.Hint(err)}
		}
		g, err := devcontainer.ParseFeature(text, u, b.place)
		if err != nil {
			return err
		}
		list = append(list, g)
	}
	var err error
	b.features, err = devcontainer.InOrder(list, b.file.Order)
	return err
}

// aboutFeature returns the metadata of a feature. It fetches a feature in a registry first.
func (b *devcontainerBuild) aboutFeature(ctx context.Context, u devcontainer.Use) ([]byte, error) {
	if u.Local() {
		return b.read(filepath.Join(b.dir, u.ID, image.FeatureFile))
	}
	ref, err := image.ParseReference(u.ID)
	if err != nil {
		return nil, err
	}
	img, err := b.resolver.Engine.Images().Shelf().Find(ref)
	if b.build.Pull == spec.PullAlways || b.build.Pull == spec.PullMissing && errors.Is(err, spec.ErrNotFound) {
		img, err = b.resolver.fetchOne(ctx, func(ctx context.Context, progress func(image.Event)) (image.Image, error) {
			return b.resolver.Engine.Images().PullFeature(ctx, ref, progress)
		})
	} else if errors.Is(err, spec.ErrNotFound) { // only this command fetches features
		flag := "--pull " + b.build.Pull
		if b.build.Pull == spec.PullLocal {
			flag = "--load-local-template (" + flag + ")"
		}
		err = spec.Errorf(spec.ErrNotFound, "it is not on this machine").WithHint("without %s it is fetched", flag)
	}
	if err != nil {
		return nil, err
	}
	of, err := b.metadataOf(img)
	if err == nil && of.Feature == "" {
		err = spec.Errorf(spec.ErrUsage, "%s is an image, and no feature", ref.Short())
	}
	b.images[u.ID] = img
	return []byte(of.Feature), err
}

// makeImage makes the image. With all it also sets the variables in the image, for users of the image's name.
func (b *devcontainerBuild) makeImage(ctx context.Context, all bool) (image.Image, error) {
	defer b.root.Close()
	base, err := b.baseImage(ctx)
	if err != nil {
		return image.Image{}, err
	}
	of, err := b.metadataOf(base)
	if err != nil {
		return image.Image{}, err
	}
	notes := b.file.Notes
	settings, more, err := of.Settings(b.place)
	if err != nil {
		return image.Image{}, err
	}
	notes = slices.Concat(notes, more)
	var env []devcontainer.Variable
	for _, g := range b.features {
		own := g.Settings
		own.ContainerEnv = nil // the image has these: they may refer to values that other features set
		settings = settings.With(own)
		notes = slices.Concat(notes, g.Notes)
	}
	b.settings = settings.With(b.file.Settings)
	b.showNotes(notes)
	if all {
		whole := b.settings.With(devcontainer.Settings{})
		if err := whole.Expand(of.Env); err != nil {
			return image.Image{}, err
		}
		env = whole.Env()
	}
	text, err := devcontainer.Finish(b.features, image.FeatureDir, env, b.settings.User(), b.settings.ContainerUser, of.User)
	if err != nil {
		return image.Image{}, spec.Errorf(spec.ErrUsage, "%s: %w", b.place.File, err)
	}
	if text == "" && b.build.name == "" {
		return base, nil
	}
	if text == "" {
		text = "FROM " + devcontainer.Base + "\n"
	}
	return b.resolver.buildImage(ctx, b.build, builder.Options{
		Context: b.project, Within: within(b.dir), Whole: true, Dockerfile: filepath.Join(b.project, b.dir, devcontainerFile), Text: []byte(text),
		Title:   func(step string) string { return devcontainer.Title(b.features, step) },
		Resolve: func(_ context.Context, name string) (image.Image, error) { return b.resolve(base, name) },
	})
}

// maxNotes bounds how many notes about a file are printed.
const maxNotes = 40

// showNotes prints the parts of a file that Bothy ignores, one per line. Their text is untrusted.
func (b *devcontainerBuild) showNotes(notes []string) {
	for _, n := range notes[:min(len(notes), maxNotes)] {
		b.resolver.Watcher.Note("devcontainer.json: %s", term.Sanitize(term.Shorten(n, maxNote)))
	}
	if more := len(notes) - maxNotes; more > 0 {
		b.resolver.Watcher.Note("devcontainer.json: and %d more that means nothing here", more)
	}
}

// Bounds of a note, and of a path in one, in characters.
const (
	maxNote  = 6000
	maxShown = 200
)

// resolve returns an image that the Dockerfile of features begins with or copies from.
func (b *devcontainerBuild) resolve(base image.Image, name string) (image.Image, error) {
	name = strings.TrimSuffix(name, ":latest")
	if name == devcontainer.Base {
		return base, nil
	}
	for i, g := range b.features {
		if img, ok := b.images[g.ID]; ok && name == devcontainer.FeatureImage(i) {
			return img, nil
		}
	}
	return image.Image{}, spec.Errorf(nil, "no image is known by the name %s", name)
}

// metadataOf returns the metadata of an image.
func (b *devcontainerBuild) metadataOf(img image.Image) (devcontainer.OfImage, error) {
	config, err := b.resolver.Engine.Images().Config(img.Digest)
	if err != nil {
		return devcontainer.OfImage{}, err
	}
	return devcontainer.ParseImage(config, image.FeatureLabel)
}

// baseImage returns the image that the file names, or builds it.
func (b *devcontainerBuild) baseImage(ctx context.Context) (image.Image, error) {
	if b.file.Image != "" {
		img, err := b.resolver.baseImage(ctx, b.file.Image, b.build)
		if err != nil {
			err = &spec.Error{Op: "image " + term.Sanitize(b.file.Image), Err: err, Hint: spec.Hint(err)}
		}
		return img, err
	}
	d := b.file.Build
	context, err := b.inProject("build.context", d.Context)
	if err != nil {
		return image.Image{}, err
	}
	if _, err := b.root.Stat(context); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return image.Image{}, spec.Errorf(spec.ErrUsage, "%s: build.context: %w", b.place.File, err).WithHint("no link is followed out of %s", b.project)
	}
	file, err := b.inProject("build.dockerfile", d.Dockerfile)
	if err != nil {
		return image.Image{}, err
	}
	without := b.build
	without.name = ""
	return b.resolver.buildImage(ctx, without, builder.Options{
		Context: b.project, Within: within(context), Dockerfile: filepath.Join(b.project, file), Args: d.Args, Target: d.Target,
	})
}

// inProject returns the path, relative to the project, of a path in the file.
func (b *devcontainerBuild) inProject(key, path string) (string, error) {
	at := filepath.Join(b.project, b.dir, path)
	if filepath.IsAbs(path) {
		at = path
	}
	rel, err := filepath.Rel(b.project, at)
	if err != nil || !filepath.IsLocal(rel) {
		return "", spec.Errorf(spec.ErrUsage, "%s: %s: %s is not in %s", b.place.File, key, term.Sanitize(path), b.project).
			WithHint("use a path in the project")
	}
	return rel, nil
}

// within returns a build's directory in the project, or "" for the project itself.
func within(dir string) string {
	if dir == "." {
		return ""
	}
	return dir
}

// fromDevcontainer makes the template of a new sandbox from a devcontainer.json, and applies the
// file's settings to the sandbox.
func (r *Resolver) fromDevcontainer(ctx context.Context, sb *spec.Sandbox, project, file string, wish Build) error {
	if err := r.Engine.Images().Hold(); err != nil { // until the sandbox exists that uses them
		return err
	}
	inside := ""
	if len(sb.Workspaces) > 0 {
		inside = sb.Workspaces[0].Target
	}
	b, err := r.openDevcontainer(ctx, project, file, inside, wish)
	if err != nil {
		return err
	}
	img, err := b.makeImage(ctx, false)
	if err != nil {
		return err
	}
	if sb.Template, sb.Image, err = imageTemplate(img); err != nil {
		return err
	}
	root, err := r.Engine.Images().Shelf().Root(img.Digest)
	if err != nil {
		return err
	}
	if err := b.settings.Expand(append(slices.Clone(root.Env), "HOME="+root.Account.Home, "USER="+root.Account.Name)); err != nil {
		return &spec.Error{Op: b.place.File, Err: err}
	}
	sb.Devcontainer = &spec.Devcontainer{File: b.place.File, Commands: b.settings.Commands}
	for _, v := range b.settings.Env() {
		sb.Devcontainer.Env = append(sb.Devcontainer.Env, v.Name+"="+v.Value)
	}
	b.volumes(sb)
	return nil
}

// volumes makes volumes in shared directories private ones.
func (b *devcontainerBuild) volumes(sb *spec.Sandbox) {
	var notes []string
	for _, path := range b.settings.Volumes {
		dir, err := workspace.ParsePrivate(path, slices.Concat(sb.Workspaces, sb.Volumes))
		if err != nil {
			notes = append(notes, "mounts: the volume "+term.Shorten(path, maxShown)+" is what the sandbox itself keeps there; no other shares it")
			continue
		}
		if !slices.Contains(sb.Private, dir) {
			sb.Private = append(sb.Private, dir)
		}
	}
	b.showNotes(notes)
}

// buildDevcontainer builds an image from a devcontainer.json.
func (r *Resolver) buildDevcontainer(ctx context.Context, wish Build, project, file string) (image.Image, error) {
	if err := r.Engine.Images().Hold(); err != nil {
		return image.Image{}, err
	}
	paths, err := r.Engine.Paths()
	if err != nil {
		return image.Image{}, err
	}
	real, err := paths.Real(project)
	if err != nil {
		return image.Image{}, hostpath.NotOpened(spec.ErrNotFound, "build", err)
	}
	b, err := r.openDevcontainer(ctx, project, file, real, wish)
	if err != nil {
		return image.Image{}, err
	}
	img, err := b.makeImage(ctx, true)
	if err == nil && len(b.settings.Commands) > 0 {
		r.Watcher.Note("devcontainer.json: its commands do not become part of an image: with -t %s they are run", project)
	}
	return img, err
}
