package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/internal/build/cache"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func (b *builder) runStep(ctx context.Context, i int, ev Event) error {
	v, began := b.plan.Vertices[i], time.Now()
	secrets, err := b.secrets(v)
	if err != nil {
		return err
	}
	x, err := b.takeBox(ctx, v.Base)
	if err != nil {
		return err
	}
	b.boxes[i], x.busy = x, true
	defer func() { x.busy = false }()
	s := build.Step{Op: v.Op, Roots: map[int]string{}, Caches: map[int]string{}, Secrets: secrets}
	for _, src := range v.Sources {
		if s.Roots[src.Input], err = b.bringFiles(ctx, x, v, src); err != nil {
			return fmt.Errorf("copy the files that it needs: %w", err)
		}
	}
	taken, err := b.takeCaches(ctx, x, v, &s, ev)
	defer func() {
		for _, c := range taken {
			c.lock.Unlock()
		}
	}()
	if err != nil {
		return err
	}
	outcome, err := x.runStep(ctx, s, func(line string) {
		b.tellEvent(Event{Step: ev.Step, Steps: ev.Steps, Name: ev.Name, State: Output, Text: line})
	})
	switch {
	case err != nil:
		return err
	case outcome.Error != "":
		return errors.New(outcome.Error)
	case outcome.Exit != 0:
		failed := &spec.Error{Err: fmt.Errorf("%w: exit status %d", ErrStep, outcome.Exit)}
		if list := records.Refused(b.engine.Store, x.sandbox, began); len(list) > 0 {
			failed.Hint = fmt.Sprintf("the network policy refused %s; if that is why, let it: --allow %s, or a --preset (bothy policy preset)", strings.Join(list, ", "), list[0])
		}
		return failed
	}
	for _, c := range taken {
		if err := b.keepCache(ctx, x, c); err != nil {
			return fmt.Errorf("keep cache %s: %w", c.called, err)
		}
	}
	if err := x.copyOutput(ctx, build.RoleClean, build.Step{}, io.Discard, silent); err != nil {
		return err
	}
	r := b.roots[i]
	step := cache.Step{Name: v.Name, Base: r.base, Made: time.Now().UTC()}
	return b.shelf.Put(r.key, step, b.NoCache, func(layer string) error { return b.engine.Builds().SaveStep(ctx, x.sandbox, layer) })
}

func (b *builder) secrets(v build.Vertex) (map[string][]byte, error) {
	values := map[string][]byte{}
	for _, s := range v.Secrets {
		value, ok := b.Secrets[s.ID]
		if !ok && !s.Optional {
			return nil, spec.Errorf(spec.ErrUsage, "it needs the secret %q", s.ID).WithHint("give it: --secret id=%s,src=FILE, or --secret id=%s,env=NAME", s.ID, s.ID)
		}
		if ok {
			values[s.ID] = value
		}
	}
	return values, nil
}

// bringFiles copies the files that a step reads from another vertex into its sandbox, and returns their
// directory.
func (b *builder) bringFiles(ctx context.Context, x *box, v build.Vertex, src build.Source) (string, error) {
	from := b.plan.Vertices[src.Vertex]
	if from.Kind == build.Context {
		return build.ContextPath, nil
	}
	name := "in" + strconv.Itoa(src.Input)
	at := filepath.Join(build.Stage, name)
	if b.inline[src.Vertex] {
		outcome, err := x.runStep(ctx, build.Step{Op: from.Op, Name: name}, func(string) {})
		if err == nil && outcome.Error != "" {
			err = errors.New(outcome.Error)
		}
		return at, err
	}
	y, err := b.readerBox(ctx, src.Vertex)
	if err != nil {
		return at, err
	}
	return at, passFiles(ctx, y, build.Step{Op: v.Op, Input: src.Input, Placed: hostroot.Placed()}, x, build.Step{Name: name})
}

// taken is a cache that a step has for itself.
type taken struct {
	id     string
	called string // name for people
	name   string // name of its directory inside
	lock   *store.Lock
}

// inOrder returns caches in the order of locking.
func inOrder(caches []build.Cache) []build.Cache {
	return slices.SortedStableFunc(slices.Values(caches), func(a, b build.Cache) int { return cmp.Compare(a.ID, b.ID) })
}

// takeCaches copies a step's caches into its sandbox. One step at a time holds a cache. A step
// that wants a private one gets an empty one while another step holds it.
func (b *builder) takeCaches(ctx context.Context, x *box, v build.Vertex, s *build.Step, ev Event) (list []taken, err error) {
	for _, c := range inOrder(v.Caches) {
		name := "cache" + strconv.Itoa(c.Mount)
		if i := slices.IndexFunc(list, func(t taken) bool { return t.id == c.ID }); i >= 0 {
			s.Caches[c.Mount] = list[i].name
			continue
		}
		s.Caches[c.Mount] = name
		lock, err := b.lockCache(ctx, c, ev)
		if err != nil {
			return list, err
		}
		if lock == nil {
			continue
		}
		list = append(list, taken{c.ID, c.Called(), name, lock})
		f, err := os.Open(b.shelf.Cache(c.ID))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return list, err
		}
		in, err := feedStep(build.Step{Name: name}, f)
		if err == nil {
			err = x.receiveFrom(ctx, in)
		}
		_ = f.Close()
		if err != nil {
			return list, fmt.Errorf("fill cache %s: %w", c.Called(), err)
		}
	}
	return list, nil
}

// lockCache waits for a cache, and reports the wait.
func (b *builder) lockCache(ctx context.Context, c build.Cache, ev Event) (*store.Lock, error) {
	for waits := false; ; {
		lock, err := b.shelf.TryCache(c.ID)
		if !errors.Is(err, store.ErrLocked) {
			return lock, err
		}
		if c.Private {
			return nil, nil
		}
		if !waits {
			waits = true
			b.tellEvent(Event{Step: ev.Step, Steps: ev.Steps, Name: ev.Name, State: Waiting, Text: "cache " + c.Called() + ", which a step of another build has"})
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// bounded is a file that accepts a fixed number of bytes and no more. A large archive may have cost
// nothing inside: a sparse file becomes an archive of zeros.
type bounded struct {
	to   io.Writer
	left int64
	full error
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, b.full
	}
	return b.to.Write(p)
}

// keepCache saves a cache in the state that a step left.
func (b *builder) keepCache(ctx context.Context, x *box, c taken) error {
	if err := b.engine.Builds().CheckRoom(); err != nil {
		return err
	}
	to, most := b.shelf.Cache(c.id), cmp.Or(b.Limits.Disk, b.engine.Defaults.Disk, maxCache)
	f, err := os.CreateTemp(filepath.Dir(to), ".tmp-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after a rename this name no longer exists
	full := spec.Errorf(spec.ErrUsage, "it holds more than a sandbox may keep on the disk").
		WithHint("have the step keep less, or set a larger disk: in config.yaml")
	err = x.copyOutput(ctx, build.RoleStore, build.Step{Name: c.name}, &bounded{f, most, full}, silent)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), to); err != nil {
		return err
	}
	return store.SyncDir(filepath.Dir(to))
}
