// Package hostchanges tells programs inside about changes by the host in shared directories.
package hostchanges

import (
	"context"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/dirwatch"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/keeper/machine"
	"github.com/bothy-dev/bothy/internal/wire"
)

// maxHostDirs is how many directories of the host are watched for one sandbox. A watch
// takes about a kilobyte of the kernel's memory.
const maxHostDirs = 2048

// Watch tells programs inside about changes by the host in shared directories.
type Watch struct {
	mounts []driver.Mount
	init   *initlink.Link
	log    *slog.Logger
	event  func(kind string, fields map[string]any) // writes an event of the sandbox
}

// New makes the watch of a sandbox with these mounts.
func New(mounts []driver.Mount, init *initlink.Link, log *slog.Logger, event func(kind string, fields map[string]any)) *Watch {
	return &Watch{mounts, init, log, event}
}

// Follow makes inotify inside report changes by the host in shared directories. The keeper watches only
// host directories that a program inside watches. Without one, the only cost is a pending question to
// init.
func (h *Watch) Follow(ctx context.Context) {
	if !slices.ContainsFunc(h.mounts, machine.SharedWithHost) {
		return
	}
	var w *dirwatch.Watcher
	failed := false
	for since := 0; since < maxHostDirs; { // init names at most this many, and a hostile program may speak for it
		r, err := h.init.AskPatiently(ctx, wire.InitAsk{Ask: wire.AskWatched, Since: since})
		if err != nil || len(r.Watched) == 0 {
			break
		}
		if w == nil {
			if w, err = dirwatch.New(maxHostDirs); err != nil {
				h.event("watch.failed", map[string]any{"error": err.Error()})
				return
			}
			defer func() { _ = w.Close() }()
			go w.Run(ctx, func(list []dirwatch.Change) { h.tellChanges(ctx, list) })
		}
		since += len(r.Watched)
		for _, dir := range r.Watched {
			if err := h.watchOnHost(w, string(dir)); err != nil && !failed {
				failed = true // once: the inside must not fill the log
				h.event("watch.failed", map[string]any{"path": initlink.Clip(string(dir)), "error": err.Error()})
			}
		}
	}
	<-ctx.Done()
}

// watchOnHost watches the host directory of a path inside. The inside names the path, so
// watchOnHost follows no link and watches nothing that another mount hides.
func (h *Watch) watchOnHost(w *dirwatch.Watcher, inside string) error {
	if !path.IsAbs(inside) || path.Clean(inside) != inside {
		return unix.EINVAL
	}
	m, ok := h.findMount(inside)
	if !ok || !machine.SharedWithHost(m) {
		return unix.ENOENT
	}
	if err := hostpath.Answers(m.Source); err != nil {
		return err
	}
	at, err := unix.Open(m.Source, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	rel, err := filepath.Rel(m.Target, inside)
	if err != nil {
		return err
	}
	fd, err := unix.Openat2(at, rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return w.Add(fd, inside)
}

// findMount finds the mount that contains a path inside.
func (h *Watch) findMount(inside string) (driver.Mount, bool) {
	for _, m := range h.mounts {
		if m.Target == inside {
			return m, true
		}
	}
	return machine.Innermost(h.mounts, inside)
}

// tellChanges reports changes to init, a bounded number at a time.
func (h *Watch) tellChanges(ctx context.Context, list []dirwatch.Change) {
	var changes []wire.Change
	for _, c := range list {
		file := strings.TrimSuffix(c.Dir, "/") + "/" + c.Name
		if !slices.ContainsFunc(h.mounts, func(m driver.Mount) bool { return m.Target == file }) {
			changes = append(changes, wire.Change{Path: []byte(file), Mask: c.Mask, Cookie: c.Cookie})
		}
	}
	for some := range slices.Chunk(changes, wire.MaxChanges) {
		if _, err := h.init.Ask(ctx, wire.InitAsk{Ask: wire.AskChanged, Changes: some}); err != nil {
			h.log.Warn("tell the inside of changes on the host", "err", err)
			return
		}
	}
}
