package rootfs

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
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/nsproc"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/savedtemplate"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Builds are the builds of images from Dockerfiles, and the cache of their steps.
type Builds struct {
	Images *Images
}

// Shelf returns the cache of build steps.
func (b *Builds) Shelf() cache.Shelf { return cache.Shelf{Dir: b.Images.Store.Builds()} }

// CheckRoom returns an error if the state directory is too full for a build.
func (b *Builds) CheckRoom() error { return b.Images.Room.Check() }

// Plan has bothy-build make a plan of a Dockerfile.
func (b *Builds) Plan(ctx context.Context, o build.Order) (build.Plan, error) {
	if err := b.CheckRoom(); err != nil { // a build copies the files that it uses
		return build.Plan{}, err
	}
	tool, err := program.Find(program.Build)
	if err != nil {
		return build.Plan{}, err
	}
	paths, err := hostpath.Load(b.Images.Store)
	if err != nil {
		return build.Plan{}, err
	}
	cmd, err := paths.Command(ctx, tool)
	if err != nil {
		return build.Plan{}, err
	}
	cmd.Env = []string{}
	cmd.SysProcAttr = isolated()
	p, err := helper.AskCommand[struct{}, build.Plan](ctx, cmd, build.Argv0, o, nil)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		err = nsproc.Explain(err)
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

// isolated returns the attributes of a process that reads untrusted files. It gets an empty network namespace. The
// caller clears its environment.
func isolated() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	return a
}

// Base returns the image below the steps of a build that begins with another image, or with
// [image.Scratch].
func (b *Builds) Base(ctx context.Context, digest string, progress func(image.Event)) (image.Image, error) {
	return single(b.Images.carryOut(ctx, image.Order{Plain: digest}, progress))
}

// Commit makes an image of a build's result.
func (b *Builds) Commit(ctx context.Context, c image.Commit, progress func(image.Event)) (image.Image, error) {
	return single(b.Images.addWithin(ctx, image.Order{Commit: &c}, progress))
}

// SaveStep saves a running sandbox's root layer, and links its files into a new directory.
func (b *Builds) SaveStep(ctx context.Context, sb *spec.Sandbox, to string) error {
	if err := b.CheckRoom(); err != nil {
		return err
	}
	return b.Images.Sandboxes.WithRunningLayer(ctx, sb, func() error {
		layers := layer.Store{Dir: b.Images.Store.Sandbox(sb.ID).Layers()}
		current, err := layers.Current()
		if err == nil && current == "" {
			err = fmt.Errorf("sandbox %s has saved nothing", sb.Name)
		}
		if err != nil {
			return err
		}
		return layer.Link(current, to)
	})
}

// BeginWithLayer returns a function that gives a new sandbox the layer of a build step as its root
// layer.
func BeginWithLayer(layerDir string) func(store.Sandbox) error {
	return func(d store.Sandbox) error { return layer.Link(layerDir, layer.Store{Dir: d.Layers()}.First()) }
}

// TemplateImage makes an image of a template that was made from a sandbox over an image.
func (b *Builds) TemplateImage(ctx context.Context, t savedtemplate.Template) (image.Image, error) {
	of, err := b.Images.FindSource(t.Name)
	if err != nil {
		return image.Image{}, err
	}
	return b.Images.export(ctx, of, image.Export{Name: t.Name, Keep: true}, nil)
}

// IsBase reports whether an image is only used as the base of build steps.
func (b *Builds) IsBase(digest string) bool {
	steps, _ := b.Shelf().Steps()
	is := func(s cache.Step) bool { return s.Base == digest }
	made := func(s cache.Step) bool { return s.Image == digest }
	return slices.ContainsFunc(steps, is) && !slices.ContainsFunc(steps, made)
}
