// Package install installs programs from an npm registry, in a process of its own that handles one
// order. It links an HTTP client, which would slow down the start of other commands.
//
// A program is installed once its directory has its final name. Everything before that happens in other
// directories, under a lock. If the process is killed, the next one continues or removes its files.
package install

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/agent/npm"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Install makes sure that a program is installed. An installed exact version is used
// without asking the registry. For a tag it asks the registry, and no other version
// replaces the one in its answer. environ has npm's configuration, see npm.LoadConfig.
func Install(ctx context.Context, st *store.Store, environ []string, r agent.Request, progress func(agent.Event)) (agent.Result, error) {
	if err := r.Check(); err != nil {
		return agent.Result{}, err
	}
	if there, ok := agent.Present(st, r); ok {
		return agent.Result{Installation: there}, nil
	}
	in, err := newInstaller(st, environ, r, progress)
	if err != nil {
		return agent.Result{}, failed(st, r, err)
	}
	defer in.client.Close()
	result, err := in.installRelease(ctx)
	if err != nil {
		return agent.Result{}, failed(st, r, err, in.config.Notices...)
	}
	result.Notices = append(result.Notices, in.config.Notices...)
	return result, nil
}

// failed adds the program to an error, and the npm settings that were not honoured: they
// may be the cause.
func failed(st *store.Store, r agent.Request, err error, notices ...string) error {
	hint := spec.Hint(err)
	if store.IsFull(err) {
		hint = st.FullHint()
	}
	hints := slices.DeleteFunc(append([]string{hint}, notices...), func(s string) bool { return s == "" })
	return &spec.Error{Op: strings.TrimSpace("install " + r.Name + " " + r.Version), Err: err, Hint: strings.Join(hints, "; ")}
}

type installer struct {
	home     agent.Home
	config   *npm.Config
	client   *npm.Client
	request  agent.Request
	key      string // of the platform
	platform agent.Platform
	progress func(agent.Event)
}

func newInstaller(st *store.Store, environ []string, r agent.Request, progress func(agent.Event)) (in *installer, err error) {
	in = &installer{request: r, progress: progress}
	if in.key, in.platform, err = agent.PlatformFor(r.Source, r.Target); err != nil {
		return nil, err
	}
	if in.home, err = agent.HomeOf(st, r.Name); err != nil {
		return nil, err
	}
	if err = in.home.Make(); err != nil {
		return nil, err
	}
	if in.config, err = npm.LoadConfig(environ); err != nil {
		return nil, err
	}
	in.client, err = npm.NewClient(in.config)
	return in, err
}

func (in *installer) installRelease(ctx context.Context) (agent.Result, error) {
	in.progress(agent.Event{Phase: agent.Resolving})
	release, err := in.client.Resolve(ctx, in.request.Source.Package, in.request.Version)
	if err != nil {
		return agent.Result{}, err
	}
	if there, err := in.findInstalled(release.Version); !errors.Is(err, fs.ErrNotExist) {
		return agent.Result{Installation: there}, err
	}
	tarball, err := in.client.Platform(ctx, release, in.platform)
	if err != nil {
		return agent.Result{}, err
	}
	lock, err := in.lockHome(ctx)
	if err != nil {
		return agent.Result{}, err
	}
	defer lock.Unlock()
	// The previous lock holder may have installed the same.
	if there, err := in.findInstalled(release.Version); !errors.Is(err, fs.ErrNotExist) {
		return agent.Result{Installation: there}, err
	}
	there, err := in.fetchPackage(ctx, release, tarball)
	return agent.Result{Installation: there, Fresh: true}, err
}

// findInstalled returns an installed version. If it is missing, the error is fs.ErrNotExist.
func (in *installer) findInstalled(version string) (agent.Installation, error) {
	there, err := in.home.Find(version, in.key)
	if err == nil && there.Package != in.request.Source.Package {
		err = spec.Errorf(spec.ErrConflict, "it is installed from %s, not from %s", there.Package, in.request.Source.Package).
			WithHint("remove that first: bothy agent rm %s@%s", in.request.Name, version)
	}
	if err == nil && !slices.Equal(there.With, in.request.Source.With) {
		err = spec.Errorf(spec.ErrConflict, "it is installed with other packages").
			WithHint("remove that first: bothy agent rm %s@%s", in.request.Name, version)
	}
	return there, err
}

func (in *installer) lockHome(ctx context.Context) (*store.Lock, error) {
	lock, err := store.TryLock(in.home.Lock())
	if errors.Is(err, store.ErrLocked) {
		in.progress(agent.Event{Phase: agent.Waiting})
		return store.AwaitLock(ctx, in.home.Lock())
	}
	return lock, err
}

// fetchPackage downloads, checks and unpacks. The caller holds the lock.
func (in *installer) fetchPackage(ctx context.Context, release npm.Release, t npm.Tarball) (agent.Installation, error) {
	if err := in.home.Sweep(in.home.Part(t.Integrity.Digest())); err != nil {
		return agent.Installation{}, err
	}
	f, err := in.download(ctx, t)
	if err != nil {
		return agent.Installation{}, err
	}
	defer f.Close()
	dir, root, err := in.home.New()
	defer os.RemoveAll(dir) // after the installation this name is gone
	if err == nil {
		err = in.unpack(f, t, root, in.platform.Binary)
	}
	for _, w := range in.request.Source.With {
		if err == nil {
			err = in.fetchModule(ctx, w, root)
		}
	}
	if err == nil {
		err = store.SyncFS(dir) // all at once: a package may have thousands of files
	}
	if err != nil {
		return agent.Installation{}, err
	}
	there, err := in.home.Put(dir, agent.Installation{
		Package: release.Package, Release: release.Version, Platform: in.key,
		From: t.Package + "@" + t.Version, With: in.request.Source.With, Integrity: t.Integrity.String(),
		Binary: in.platform.Binary, Installed: time.Now().UTC().Truncate(time.Second),
	})
	if err == nil {
		os.Remove(in.home.Part(t.Integrity.Digest()))
	}
	return there, err
}

// fetchModule installs a package that the program loads, PACKAGE@VERSION, below the program's directory.
func (in *installer) fetchModule(ctx context.Context, text, root string) error {
	pkg, version, err := agent.CutPackage(text)
	if err != nil {
		return err
	}
	release, err := in.client.Resolve(ctx, pkg, version)
	if err != nil {
		return err
	}
	t, err := in.client.Platform(ctx, release, agent.Platform{})
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "node_modules", filepath.FromSlash(pkg))
	if err := makeVisible(root, dir); err != nil {
		return err
	}
	f, err := in.download(ctx, t)
	if err != nil {
		return err
	}
	defer f.Close()
	if err = in.unpack(f, t, dir, ""); err == nil {
		os.Remove(in.home.Part(t.Integrity.Digest()))
	}
	return err
}

// makeVisible makes a new directory below root that every user inside may read.
func makeVisible(root, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for ; dir != root; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask is
			return err
		}
	}
	return nil
}

// download fetches and checks a package.
func (in *installer) download(ctx context.Context, t npm.Tarball) (*os.File, error) {
	return in.client.Download(ctx, t, in.home.Part(t.Integrity.Digest()), func(done, total int64) {
		in.progress(agent.Event{Phase: agent.Downloading, Version: t.Version, Bytes: done, Total: total})
	})
}

// unpack unpacks a package into an empty directory. The package must contain the program, if that has a name.
func (in *installer) unpack(f *os.File, t npm.Tarball, dir, program string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	err = npm.Unpack(in.reportReading(f, t.Version), root, program)
	if errors.Is(err, spec.ErrDenied) {
		os.Remove(in.home.Part(t.Integrity.Digest())) // it would be refused again
	}
	return err
}

func (in *installer) reportReading(f *os.File, version string) io.Reader {
	e := agent.Event{Phase: agent.Unpacking, Version: version}
	if info, err := f.Stat(); err == nil {
		e.Total = info.Size()
	}
	return readerFunc(func(p []byte) (int, error) {
		n, err := f.Read(p)
		e.Bytes += int64(n)
		in.progress(e)
		return n, err
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
