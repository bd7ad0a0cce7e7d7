package keeper

import (
	"context"
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

// tellHostChanges makes inotify inside report what the host does in shared directories. The keeper
// watches only host directories that a program inside watches. Without one, the only cost is a
// pending question to init.
func (k *Keeper) tellHostChanges(ctx context.Context) {
	if !slices.ContainsFunc(k.built.Mounts, machine.SharedWithHost) {
		return
	}
	var w *dirwatch.Watcher
	failed := false
	for since := 0; since < maxHostDirs; { // init names at most this many, and a hostile program may speak for it
		r, err := k.link.AskPatiently(ctx, wire.InitAsk{Ask: wire.AskWatched, Since: since})
		if err != nil || len(r.Watched) == 0 {
			break
		}
		if w == nil {
			if w, err = dirwatch.New(maxHostDirs); err != nil {
				k.event("watch.failed", map[string]any{"error": err.Error()})
				return
			}
			defer func() { _ = w.Close() }()
			go w.Run(ctx, func(list []dirwatch.Change) { k.tellChanges(ctx, list) })
		}
		since += len(r.Watched)
		for _, dir := range r.Watched {
			if err := k.watchOnHost(w, string(dir)); err != nil && !failed {
				failed = true // once: the inside must not fill the log
				k.event("watch.failed", map[string]any{"path": initlink.Clip(string(dir)), "error": err.Error()})
			}
		}
	}
	<-ctx.Done()
}

// watchOnHost watches the host directory of a path inside. The inside names the path, so
// watchOnHost follows no link and watches nothing that another mount hides.
func (k *Keeper) watchOnHost(w *dirwatch.Watcher, inside string) error {
	if !path.IsAbs(inside) || path.Clean(inside) != inside {
		return unix.EINVAL
	}
	m, ok := k.mountAt(inside)
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

// mountAt finds the mount that contains a path inside.
func (k *Keeper) mountAt(inside string) (driver.Mount, bool) {
	for _, m := range k.built.Mounts {
		if m.Target == inside {
			return m, true
		}
	}
	return machine.Innermost(k.built.Mounts, inside)
}

// tellChanges reports changes to init, a bounded number at a time.
func (k *Keeper) tellChanges(ctx context.Context, list []dirwatch.Change) {
	var changes []wire.Change
	for _, c := range list {
		file := strings.TrimSuffix(c.Dir, "/") + "/" + c.Name
		if !slices.ContainsFunc(k.built.Mounts, func(m driver.Mount) bool { return m.Target == file }) {
			changes = append(changes, wire.Change{Path: []byte(file), Mask: c.Mask, Cookie: c.Cookie})
		}
	}
	for some := range slices.Chunk(changes, wire.MaxChanges) {
		if _, err := k.link.Ask(ctx, wire.InitAsk{Ask: wire.AskChanged, Changes: some}); err != nil {
			k.log.Warn("tell the inside of changes on the host", "err", err)
			return
		}
	}
}
