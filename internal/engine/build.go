package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/internal/build/cache"
	"github.com/bothy-dev/bothy/internal/helper"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// RoomForBuild returns an error if the state directory is too full for a build.
func (e *Engine) RoomForBuild() error { return e.CheckRoom() }

// PlanBuild has bothy-build make a plan of a Dockerfile.
func (e *Engine) PlanBuild(ctx context.Context, o build.Order) (build.Plan, error) {
	if err := e.RoomForBuild(); err != nil { // a build copies the files that it uses
		return build.Plan{}, err
	}
	tool, err := program.Find(program.Build)
	if err != nil {
		return build.Plan{}, err
	}
	paths, err := e.Paths()
	if err != nil {
		return build.Plan{}, err
	}
	cmd, err := paths.Command(ctx, tool)
	if err != nil {
		return build.Plan{}, err
	}
	cmd.Env = []string{}
	cmd.SysProcAttr = apart()
	p, err := have[struct{}, build.Plan](ctx, cmd, build.Argv0, o, nil)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		err = namespaceError(err)
	}
	switch {
	case errors.Is(err, helper.ErrSilent) && strings.Contains(err.Error(), "out of memory"): // the tool limits its own memory
		err = spec.Errorf(spec.ErrUsage, "%s: to read it takes too much memory", o.Dockerfile).
			WithHint("is a variable made of itself, again and again?")
	case errors.Is(err, helper.ErrSilent):
		err = &spec.Error{Op: "read the Dockerfile", Err: err, Hint: "is " + tool + " of the same version as bothy?"}
	}
	return p, err
}

// apart isolates a process that reads untrusted files: it gets an empty network namespace. The
// caller clears its environment.
func apart() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	return a
}

// BuildBase returns the image below the steps of a build that begins with another image, or with
// [image.Scratch].
func (e *Engine) BuildBase(ctx context.Context, digest string, progress func(image.Event)) (image.Image, error) {
	result, err := e.orderImage(ctx, image.Order{Plain: digest}, progress)
	if err != nil {
		return image.Image{}, err
	}
	return result.Images[0], nil
}

// CommitBuild makes an image of a build's result.
func (e *Engine) CommitBuild(ctx context.Context, c image.Commit, progress func(image.Event)) (image.Image, error) {
	result, err := e.addImages(ctx, image.Order{Commit: &c}, progress)
	if err != nil {
		return image.Image{}, err
	}
	return result.Images[0], nil
}

// maxImageConfig bounds an image's configuration, in bytes.
const maxImageConfig = 8 << 20

// ImageConfig returns the configuration of a local image.
func (e *Engine) ImageConfig(digest string) ([]byte, error) {
	if err := image.CheckDigest(digest); err != nil {
		return nil, err
	}
	var m image.Manifest
	if err := store.ReadJSON(e.Images().Blob(digest), &m); err != nil {
		return nil, err
	}
	if err := image.CheckDigest(m.Config.Digest); err != nil {
		return nil, err
	}
	return store.ReadFile(e.Images().Blob(m.Config.Digest), 0, maxImageConfig)
}

// SaveStep saves a running sandbox's root layer, and links its files into a new directory.
func (e *Engine) SaveStep(ctx context.Context, sb *spec.Sandbox, to string) error {
	if err := e.CheckRoom(); err != nil {
		return err
	}
	save := func() error {
		layers := layer.Store{Dir: e.Store.Sandbox(sb.ID).Layers()}
		current, err := layers.Current()
		if err == nil && current == "" {
			err = fmt.Errorf("sandbox %s has saved nothing", sb.Name)
		}
		if err != nil {
			return err
		}
		return layer.Link(current, to)
	}
	return e.TellWithin(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		if err := askToSave(c); err != nil {
			return err
		}
		return save()
	}, func() error { return spec.Errorf(spec.ErrSandbox, "sandbox %s ended", sb.Name) })
}

// From has a new sandbox's root begin with the layer of a build step.
func From(layerDir string) func(store.Sandbox) error {
	return func(d store.Sandbox) error { return layer.Link(layerDir, layer.Store{Dir: d.Layers()}.First()) }
}

// Builds returns the cache of build steps.
func (e *Engine) Builds() cache.Shelf { return cache.Shelf{Dir: e.Store.Builds()} }

// buildBases returns the images below cached build steps, by their digests, each with the keys of
// these steps.
func (e *Engine) buildBases() (map[string][]string, error) {
	steps, err := e.Builds().Steps()
	bases := map[string][]string{}
	for _, s := range steps {
		for _, digest := range []string{s.Base, s.Image} {
			if image.CheckDigest(digest) == nil {
				bases[digest] = append(bases[digest], s.Key)
			}
		}
	}
	return bases, err
}

// TemplateImage makes an image of a template that was made from a sandbox over an image.
func (e *Engine) TemplateImage(ctx context.Context, t savedtemplate.Template) (image.Image, error) {
	of, err := e.FindImage(t.Name)
	if err != nil {
		return image.Image{}, err
	}
	return e.exportImage(ctx, of, image.Export{Name: t.Name, Keep: true}, nil)
}

// IsBuildBase reports whether an image is only used as the base of build steps.
func (e *Engine) IsBuildBase(digest string) bool {
	steps, _ := e.Builds().Steps()
	is := func(s cache.Step) bool { return s.Base == digest }
	made := func(s cache.Step) bool { return s.Image == digest }
	return slices.ContainsFunc(steps, is) && !slices.ContainsFunc(steps, made)
}
