package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// place is a directory in which programs work, and the way to start them there.
type place struct {
	name string
	dir  string
	// command runs a program in the directory. Its standard input is connected only if requested.
	command func(ctx context.Context, stdin bool, args ...string) *exec.Cmd
	skip    string // why nothing can be measured there
}

// native is the place with which the others are compared.
const native = "native"

// places makes every place, the native one first. Each has a directory of its own, so that it does not
// profit from the cache or index of another.
func (b *bench) places(ctx context.Context) (list []*place, closer func() error, err error) {
	var closers []func() error
	closer = func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	dir := func(name string) string { return filepath.Join(b.work, "files-"+name) }
	for _, name := range []string{native, "bwrap", "runc"} {
		if err := os.Mkdir(dir(name), 0o755); err != nil {
			return nil, closer, err
		}
	}
	list = append(list, nativePlace(dir(native)))
	if b.before != nil {
		more, err := b.bothyPlaces(ctx)
		closers = append(closers, b.removePlaces)
		return append(list, more...), closer, err
	}
	list = append(list, bwrapPlace(ctx, dir("bwrap")))

	r, err := newRunc(ctx, filepath.Join(b.work, "files-runc-bundle"), dir("runc"))
	if err == nil {
		closers = append(closers, r.remove)
		list = append(list, runcPlace(r, dir("runc")))
	} else {
		list = append(list, &place{name: "runc", skip: b.redact(err)})
	}

	more, err := b.bothyPlaces(ctx)
	closers = append(closers, b.removePlaces)
	return append(list, more...), closer, err
}

// bothyPlaces makes places in one sandbox each: a full root layer is saved in the background, which is
// part of the cost of the root layer, but not of the others.
func (b *bench) bothyPlaces(ctx context.Context) (list []*place, err error) {
	for _, p := range []struct{ name, dir string }{
		{"workspace", ""}, {"review", ""}, {"root layer", "/var/tmp/bench"}, {"/tmp", "/tmp/bench"},
	} {
		for _, v := range b.versions() {
			at, err := b.bothyPlace(ctx, v, p.name, p.dir)
			if err != nil {
				return nil, err
			}
			list = append(list, at)
		}
	}
	return list, nil
}

func (b *bench) removePlaces() error {
	var errs []error
	for _, v := range b.versions() {
		errs = append(errs, v.bothy.do(context.Background(), "rm", "--force", "--all"))
	}
	return errors.Join(errs...)
}

func nativePlace(dir string) *place {
	return &place{name: native, dir: dir, command: func(ctx context.Context, _ bool, args ...string) *exec.Cmd {
		cmd := command(ctx, cleanEnv(dir), args[0], args[1:]...)
		cmd.Dir = dir
		return cmd
	}}
}

func bwrapPlace(ctx context.Context, dir string) *place {
	return &place{name: "bwrap", dir: dir, skip: noBwrap(ctx), command: func(ctx context.Context, _ bool, args ...string) *exec.Cmd {
		return command(ctx, cleanEnv(dir), "bwrap", append(bwrapArgs(dir), args...)...)
	}}
}

func runcPlace(r *runc, dir string) *place {
	return &place{name: "runc", dir: dir, command: func(ctx context.Context, _ bool, args ...string) *exec.Cmd {
		return r.exec(ctx, dir, args...)
	}}
}

// bothyPlace starts a sandbox and makes a directory in it, or otherwise uses its workspace.
func (b *bench) bothyPlace(ctx context.Context, v version, name, dir string) (*place, error) {
	sandbox := "files-" + map[string]string{"workspace": "ws", "review": "review", "root layer": "root", "/tmp": "tmp"}[name]
	workspace, mode := filepath.Join(b.work, strings.ReplaceAll(v.name, " ", "-")+"-"+sandbox), "live"
	if name == "review" {
		mode = "review"
	}
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return nil, err
	}
	if dir == "" {
		dir = workspace
	}
	if err := v.bothy.do(ctx, "create", "--quiet", "--name", sandbox, "--workspace", mode, "shell", workspace); err != nil {
		return nil, err
	}
	if err := v.bothy.do(ctx, "exec", sandbox, "mkdir", "-p", dir); err != nil {
		return nil, err
	}
	return &place{name: v.name + " " + name, dir: dir, command: func(ctx context.Context, stdin bool, args ...string) *exec.Cmd {
		exec := []string{"exec", "--workdir", dir}
		if stdin {
			exec = append(exec, "--interactive")
		}
		return v.bothy.command(ctx, append(append(exec, sandbox), args...)...)
	}}, nil
}
