// Package engine is the life cycle of sandboxes as seen from the host: create,
// find, start, stop, remove. It decides who may start a sandbox and cleans up
// after what crashed; what happens inside a running one is its keeper's affair.
//
// Truth about a sandbox lies in three places: spec.json, what was wished;
// the lock, which a keeper holds as long as it lives; and status.json, what
// the keeper last said. The lock outranks the status.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/build/cache"
	"github.com/bothy-dev/bothy/internal/cgroup"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/template"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Engine works on one state directory.
type Engine struct {
	Store   *store.Store
	Version string // of this binary
	Agents  agent.Catalog
	// Progress is told what a long step does now. May be nil.
	Progress func(string)
	// Unenforced is told of limits that a sandbox it just started will not be
	// held to. May be nil.
	Unenforced func(*spec.Sandbox, spec.Enforcement)
	// Passphrase asks the user for the passphrase of the secrets; twice for a
	// fresh one. Nil if nobody can be asked.
	Passphrase func(fresh bool) ([]byte, error)
	// Defaults are limits for sandboxes that ask for none.
	Defaults spec.Limits
	// Prices are what models cost, before the usual ones.
	Prices []price.Price
	// StoreLimit is what the state directory may take of the disk, in bytes: beyond it
	// nothing is added to it, and what runs goes on. 0: anything.
	StoreLimit int64
	// Claims gives the sandboxes, by ID, that are needed by what goes on by itself, or could
	// be gone on with, and the name of that. An error means that there may be more. May be nil.
	Claims func() (map[string]string, error)

	hold   imageHold
	makers makers // of sandboxes for one command: one that was not started yet is nobody else's to sweep
	making makers // of sandboxes that lack something yet: see Making
}

// Info is a sandbox as a list shows it.
type Info struct {
	Spec   *spec.Sandbox
	Status spec.Status // its State is corrected by the lock
}

func (e *Engine) say(format string, args ...any) {
	if e.Progress != nil {
		e.Progress(fmt.Sprintf(format, args...))
	}
}

// patiently says what is waited for if that takes long, until done is called.
func (e *Engine) patiently(format string, args ...any) (done func()) {
	notice := time.AfterFunc(waitNotice, func() { e.say(format, args...) })
	return func() { notice.Stop() }
}

// List gives all sandboxes, by name.
func (e *Engine) List() ([]Info, error) {
	list, err := e.Store.List()
	if err != nil {
		return nil, err
	}
	infos := make([]Info, len(list))
	for i, sb := range list {
		infos[i] = Info{sb, e.Status(sb)}
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) })
	return infos, nil
}

// Find gives the sandbox with a name or an id.
func (e *Engine) Find(ref string) (*spec.Sandbox, error) {
	list, err := e.Store.List()
	if err != nil {
		return nil, err
	}
	for _, is := range []func(*spec.Sandbox) string{
		func(sb *spec.Sandbox) string { return sb.ID }, // first: nobody can choose one
		func(sb *spec.Sandbox) string { return sb.Name },
	} {
		if i := slices.IndexFunc(list, func(sb *spec.Sandbox) bool { return is(sb) == ref }); i >= 0 {
			return list[i], nil
		}
	}
	return nil, spec.Errorf(spec.ErrNotFound, "no sandbox named %q", ref).WithHint("bothy ls shows what there is")
}

// FindFor gives the sandbox of an agent in a directory: the one bothy run comes
// back to. It is nil when there is none. With several, made by --name, the
// oldest is the one.
func (e *Engine) FindFor(agent, dir string) (*spec.Sandbox, error) {
	list, err := e.Store.List()
	if err != nil {
		return nil, err
	}
	var found *spec.Sandbox
	for _, sb := range list {
		if sb.Broken != "" || sb.Remove || sb.Agent != agent || len(sb.Workspaces) == 0 || sb.Workspaces[0].Source != dir {
			continue
		}
		if found == nil || sb.CreatedAt.Before(found.CreatedAt) {
			found = sb
		}
	}
	return found, nil
}

// Create writes a new sandbox down. The name may be empty: one is chosen from
// the agent and the directory. Whatever more writes is in the sandbox's directory
// when it appears.
func (e *Engine) Create(ctx context.Context, sb *spec.Sandbox, more ...func(store.Sandbox) error) error {
	e.sweep()
	defer e.releaseImages() // after the names: it may sweep
	lock, err := e.holdNames(ctx)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return e.create(ctx, sb, more)
}

// Obtain gives the sandbox that is wished for, if there is one already: by its
// name, or, without a name, that of the same agent in the same directory.
// Otherwise the wish is created. Of several callers at once one creates.
func (e *Engine) Obtain(ctx context.Context, wish *spec.Sandbox, more ...func(store.Sandbox) error) (sb *spec.Sandbox, created bool, err error) {
	e.sweep()
	defer e.releaseImages()
	lock, err := e.holdNames(ctx)
	if err != nil {
		return nil, false, err
	}
	defer lock.Unlock()
	sb, err = e.Existing(wish)
	if err != nil || sb != nil {
		return sb, false, err
	}
	return wish, true, e.create(ctx, wish, more)
}

// holdNames takes the names lock. Whoever has it for long clones a repository for a sandbox.
func (e *Engine) holdNames(ctx context.Context) (*store.Lock, error) {
	defer e.patiently("another bothy makes a sandbox; waiting for it")()
	return e.Store.NamesLock(ctx)
}

// Existing gives the sandbox that [Engine.Obtain] would give for a wish; nil if
// it would create one.
func (e *Engine) Existing(wish *spec.Sandbox) (*spec.Sandbox, error) {
	if wish.Name == "" {
		return e.FindFor(wish.Agent, wish.Workspaces[0].Source)
	}
	sb, err := e.Find(wish.Name)
	if errors.Is(err, spec.ErrNotFound) {
		return nil, nil
	}
	return sb, err
}

// create has a new sandbox begin with what its template holds. The caller holds the
// names lock.
func (e *Engine) create(ctx context.Context, sb *spec.Sandbox, more []func(store.Sandbox) error) error {
	return e.add(ctx, sb, append([]func(store.Sandbox) error{e.begin(ctx, sb), e.makeClones(ctx, sb)}, more...)...)
}

// add adds a sandbox. The caller holds the names lock.
func (e *Engine) add(ctx context.Context, sb *spec.Sandbox, fill ...func(store.Sandbox) error) error {
	if err := e.room(); err != nil {
		return err
	}
	if err := workspace.Check(sb); err != nil {
		return err
	}
	if err := template.CheckMounts(sb.Mounted()); err != nil { // it could never be started
		return err
	}
	if sb.Limits.CPUs > 0 || sb.Limits.Memory > 0 {
		if err := cgroup.Check(sb.Limits); err != nil {
			return &spec.Error{Class: spec.ErrSandbox, Op: "create a sandbox", Err: err, Hint: spec.Hint(err)}
		}
	}
	if err := e.checkReviewed(sb); err != nil {
		return err
	}
	_ = e.Store.SweepNew()
	taken, err := e.names()
	if err != nil {
		return err
	}
	if sb.Name == "" {
		sb.Name = freeName(sb, taken)
	}
	if err := checkFree(sb.Name, taken); err != nil {
		return err
	}
	if err := checkCloned(sb); err != nil {
		return err
	}
	if _, _, err := e.programDirs(sb); err != nil { // it may have been removed since it was chosen
		return err
	}
	if _, err := e.launchImage(ctx, sb); err != nil { // likewise
		return err
	}
	if sb.Remove {
		fill = append([]func(store.Sandbox) error{e.makers.begin(sb.ID, store.Sandbox.MakerLock)}, fill...)
	}
	if _, err = e.Store.Create(sb, fill...); err != nil {
		e.makers.end(sb.ID)
		e.making.end(sb.ID)
	}
	return err
}

// sweep removes what crashed commands left: half-removed directories, half-made forks, and
// sandboxes made for one command that is over.
func (e *Engine) sweep() {
	_ = e.Store.Sweep()
	list, err := e.Store.List()
	if err != nil {
		return
	}
	for _, sb := range list {
		_ = e.Checkpoints(sb).Tidy() // an image of memory may be left of a command that was killed
		if sb.Build != nil && !cache.Running(sb.Build.Lock) {
			_ = e.Remove(context.Background(), sb, true)
			continue
		}
		d := e.Store.Sandbox(sb.ID)
		if !sb.Remove && !d.HasMaker() {
			continue
		}
		made := !d.Awaited() // before the status: who lets go may have started it
		if !sb.Remove && (!made || d.MayHaveStarted()) {
			continue // a fork that is being made, or was started and may have work in it
		}
		st := e.Status(sb)
		if st.State == spec.Stopped && (made || st.StartedAt != nil) {
			_ = e.Remove(context.Background(), sb, true)
		}
	}
}

func (e *Engine) names() (map[string]bool, error) {
	list, err := e.Store.List()
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, sb := range list {
		taken[sb.Name] = true
	}
	return taken, nil
}

// free refuses names that no sandbox can have, or that one has already. An empty one is
// chosen when it is needed.
func (e *Engine) free(names []string) error {
	taken, err := e.names()
	for _, name := range names {
		if err == nil && name != "" {
			err = checkFree(name, taken)
		}
	}
	return err
}

func checkFree(name string, taken map[string]bool) error {
	if taken[name] {
		return spec.Errorf(spec.ErrConflict, "a sandbox named %q exists already", name).
			WithHint("choose another --name, use it with: bothy run --name %s, or remove it: bothy rm %s", name, name)
	}
	if store.IsID(name) {
		return spec.Errorf(spec.ErrUsage, "invalid sandbox name %q: it looks like an id", name).WithHint("ids have 12 hex digits: take another name")
	}
	return spec.CheckName(name)
}

// freeName is the sandbox's default name, numbered if it is taken.
func freeName(sb *spec.Sandbox, taken map[string]bool) string {
	dir := ""
	if len(sb.Workspaces) > 0 {
		dir = sb.Workspaces[0].Source
	}
	base := spec.DefaultName(sb.Agent, dir)
	name := base
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// Status is a sandbox's status, with the state corrected by the lock.
func (e *Engine) Status(sb *spec.Sandbox) spec.Status {
	d := e.Store.Sandbox(sb.ID)
	st, known := d.LastStatus()
	if !known { // it is lost, or the sandbox never ran: who can be asked has a socket
		_, err := os.Lstat(d.Control())
		known = err != nil
	}
	if known && st.State == spec.Stopped {
		return st
	}
	switch running := store.IsLocked(d.Lock()); {
	case !known && running: // its keeper writes more with its next change
		st.State = spec.Running
	case known && !running:
		st.State, st.Crashed = spec.Stopped, true
		if st.Reason == "" {
			st.Reason = whyDied(d)
		}
	}
	return st
}

// errRemoved says that somebody has removed a sandbox that is worked with.
func errRemoved(sb *spec.Sandbox) error {
	return spec.Errorf(spec.ErrNotFound, "sandbox %s was removed", sb.Name)
}

// opError is the error of an operation on a sandbox. If the sandbox was removed meanwhile, that is
// the reason, and not the file that was missed first.
func (e *Engine) opError(op string, sb *spec.Sandbox, err error) error {
	if !e.exists(sb) {
		err = errRemoved(sb)
	}
	return &spec.Error{Op: op, Err: err}
}

// exists reports whether a sandbox was removed meanwhile.
func (e *Engine) exists(sb *spec.Sandbox) bool {
	_, err := e.Store.Load(sb.ID)
	return !errors.Is(err, fs.ErrNotExist)
}
