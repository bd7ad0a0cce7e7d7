package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Fork makes a new sandbox of each name that begins with the state of another sandbox at a
// checkpoint. It chooses an empty name. A fork has the rules of the other sandbox, and leases of its
// own for the same credentials. It has no ports of the host. If the other writes directly to files
// of the host, the fork keeps its changes for review, over the present files: two sandboxes that
// wrote to the same files would disturb each other. From a full checkpoint the programs resume,
// unless files is set. With an error Fork also returns the forks that it made.
func (s *Snapshots) Fork(ctx context.Context, from *spec.Sandbox, p checkpoint.Point, names []string, files bool) (made []*spec.Sandbox, err error) {
	s.engine.Sweep()
	if err := s.engine.CheckNames(names); err != nil {
		return nil, s.engine.Keepers().OpError("fork "+from.Name, from, err)
	}
	s.tellLeftOut(p)
	if p.Memory > 0 && !files {
		s.warnSharedFiles(p, s.sharedPlaces(from, true))
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return made, context.Cause(ctx)
		}
		sb, err := s.ForkNoted(ctx, from, p, name, files, nil)
		if err != nil {
			return made, err
		}
		made = append(made, sb)
	}
	return made, nil
}

// ForkNow is [Snapshots.Fork] from the present state. If the other sandbox runs, its programs resume
// in each fork from the same moment, unless files is set. A checkpoint of that state stays.
func (s *Snapshots) ForkNow(ctx context.Context, from *spec.Sandbox, names []string, files bool) (made []*spec.Sandbox, err error) {
	s.engine.Sweep()
	if err := s.engine.CheckNames(names); err != nil { // before a checkpoint is made
		return nil, s.engine.Keepers().OpError("fork "+from.Name, from, err)
	}
	if !files && s.engine.Status(from).State == spec.Running {
		return s.forkRunning(ctx, from, names)
	}
	p, err := s.Checkpoint(ctx, from, "", "fork", false)
	if err != nil {
		return nil, err
	}
	if made, err = s.Fork(ctx, from, p, names, files); len(made) == 0 { // no fork begins from it
		err = errors.Join(err, s.Remove(from, p))
	}
	return made, err
}

// ForkNoted is [Snapshots.Fork] for a caller that records a fork before it exists: ForkNoted calls
// noted with the fork, and makes none if that fails. noted may be nil.
func (s *Snapshots) ForkNoted(ctx context.Context, from *spec.Sandbox, p checkpoint.Point, name string, files bool, noted func(*spec.Sandbox) error) (*spec.Sandbox, error) {
	sb, err := s.makeFork(ctx, from, p, name, files, noted)
	if err != nil {
		return nil, s.engine.Keepers().OpError("fork "+from.Name, from, err)
	}
	return sb, nil
}

// tellLeftOut tells the user which files a sandbox lacks that begins from a checkpoint.
func (s *Snapshots) tellLeftOut(p checkpoint.Point) {
	if n := p.Left - p.LeftShared; n > 0 {
		s.say("%s could not be read when checkpoint %s was made, or are devices, and are not in the copies", spec.FormatCount(n, "file"), p.Name)
	}
}

// sharedPlaces returns the directories and files of the host that programs find in their present
// state when they resume from a full checkpoint: the checkpoint does not hold them, or they are not
// restored. For a fork none is restored.
func (s *Snapshots) sharedPlaces(sb *spec.Sandbox, forked bool) (places []string) {
	back := map[string]bool{}
	for _, src := range s.sourcesIn(sb, s.directory(sb)) {
		back[src.Dir] = isWorkspace(src) && !forked
	}
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if !sb.Clones(m) && !back[m.Source] {
			places = append(places, m.Source)
		}
	}
	return places
}

// warnSharedFiles tells the user that programs resume over files that may have changed since.
func (s *Snapshots) warnSharedFiles(p checkpoint.Point, places []string) {
	if len(places) > 0 {
		s.say("the programs of checkpoint %s go on over %s as it is now: files that they have open there may have changed; --files does without them", p.Name, strings.Join(places, ", "))
	}
}

func (s *Snapshots) makeFork(ctx context.Context, from *spec.Sandbox, p checkpoint.Point, name string, files bool, noted func(*spec.Sandbox) error) (*spec.Sandbox, error) {
	_, lock, err := s.openCheckpoints(from)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	var memory *engine.Memory
	if p.Memory > 0 && !files {
		if memory, err = s.openMemory(ctx, from, p, true); err != nil {
			return nil, err
		}
	}
	sb, err := s.forkFiles(ctx, from, p, name, memory != nil, noted)
	if err != nil {
		return nil, err
	}
	if memory != nil {
		if err := s.resumeFork(ctx, from, sb, memory); err != nil {
			return nil, err
		}
		return sb, nil
	}
	s.engine.Credentials().LendAgain(ctx, from, sb, false)
	return sb, nil
}

// forkFiles makes a fork that does not run and has no leases. With programs it is incomplete until
// programs resume in it. The caller holds the lock of the checkpoints.
func (s *Snapshots) forkFiles(ctx context.Context, from *spec.Sandbox, p checkpoint.Point, name string, programs bool, noted func(*spec.Sandbox) error) (*spec.Sandbox, error) {
	sb := Forked(from)
	sb.ID, sb.Name, sb.CreatedAt = store.NewID(), name, time.Now().UTC()
	if noted != nil { // the loop of the other makes it, and works in it
		sb.Loop = from.Loop
	}
	named := func() (err error) {
		if name == "" {
			sb.Name, err = s.freeFork(from)
		}
		if err == nil && noted != nil {
			err = noted(&sb)
		}
		return err
	}
	fill := []func(store.Sandbox) error{func(d store.Sandbox) error { return s.fillFork(from, &sb, p, d) }}
	if programs {
		fill = append(fill, s.engine.MarkFork(&sb))
	}
	return &sb, s.engine.AddCopy(ctx, &sb, named, fill...)
}

// Forked returns a fork of a sandbox as a person makes it: without ports of the host, the loop that works
// in the other, and writes that reach the host's files at once. It still has the ID and the name of the
// other.
func Forked(from *spec.Sandbox) spec.Sandbox {
	sb := *from
	sb.Ports, sb.Remove, sb.Loop = nil, false, ""
	if sb.Mode() == spec.WorkspaceLive {
		sb.WorkspaceMode = spec.WorkspaceReview
	}
	return sb
}

// freeFork returns a free name for a fork. The caller holds the names lock.
func (s *Snapshots) freeFork(from *spec.Sandbox) (string, error) {
	list, err := s.engine.Store.List()
	for n := 1; err == nil; n++ {
		name := fmt.Sprintf("%s-fork-%d", from.Name, n)
		if !slices.ContainsFunc(list, func(sb *spec.Sandbox) bool { return sb.Name == name }) {
			return name, nil
		}
	}
	return "", err
}

// fillFork fills the directory of a fork with the state of the other sandbox.
func (s *Snapshots) fillFork(from, sb *spec.Sandbox, p checkpoint.Point, d store.Sandbox) error {
	clones := s.clones(from)
	for i, c := range clone.Of(sb, d.Clone) {
		if err := clones[i].Fork(c.Dir); err != nil {
			return err
		}
	}
	if err := s.fillFiles(s.Checkpoints(from), p, sb, d); err != nil {
		return err
	}
	if !s.engine.Credentials().NeverLent(from) { // a revoked credential is not lent again automatically
		if err := os.WriteFile(d.Lent(), nil, 0o600); err != nil {
			return err
		}
	}
	if from.Devcontainer != nil {
		if err := restoreSetUps(s.directory(from), p.CreatedAt, d); err != nil {
			return err
		}
	}
	return store.AtOnce(
		func() error { return s.engine.Store.Sandbox(from.ID).CopyRules(d) },
		func() error { return store.SyncFS(d.Dir) }, // all else
	)
}

// fillFiles fills the directory of a new sandbox with the files of a checkpoint. It leaves out the
// workspaces, and files with logins or placeholders, which belong to the other sandbox.
func (s *Snapshots) fillFiles(shelf checkpoint.Shelf, p checkpoint.Point, sb *spec.Sandbox, d store.Sandbox) error {
	if err := shelf.Fill(p, slices.DeleteFunc(s.sourcesIn(sb, d), isWorkspace)); err != nil {
		return err
	}
	if err := layer.Link(shelf.Layer(p), layer.Store{Dir: d.Layers()}.First()); err != nil {
		return err
	}
	home, err := os.OpenRoot(d.Home())
	if err != nil {
		return err
	}
	defer home.Close()
	return s.engine.Homes().RemoveLendable(sb, home)
}
