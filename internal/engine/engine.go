// Package engine is the life cycle of sandboxes as seen from the host: create, find, start, stop,
// remove. It decides who may start a sandbox, and cleans up after crashes. The keeper handles
// everything inside a running sandbox.
//
// The truth about a sandbox is in three places: spec.json holds the wish of its owner; a keeper
// holds the lock as long as it lives; status.json holds the keeper's last report. The lock outranks
// the status.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/build/cache"
	"github.com/bothy-dev/bothy/internal/cgroup"
	"github.com/bothy-dev/bothy/internal/changes"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// Engine works on one state directory.
type Engine struct {
	Store   *store.Store
	Version string // of this binary
	Agents  agent.Catalog
	// Progress receives the current step of a long operation. May be nil.
	Progress func(string)
	// Unenforced receives the limits that will not be enforced on a sandbox that was just started.
	// May be nil.
	Unenforced func(*spec.Sandbox, spec.Enforcement)
	// Passphrase asks the user for the passphrase of the secrets; twice for a fresh one. It is nil
	// if the user cannot be asked.
	Passphrase func(fresh bool) ([]byte, error)
	// OwnProcess says that this process is Bothy's own, so that its signals and its terminal may be used
	// while secrets are read: see [credential.Values].
	OwnProcess bool
	// Drivers are the drivers that sandboxes may have. Nil means those of this build.
	Drivers driver.Table
	// Defaults are the limits of sandboxes that ask for none.
	Defaults spec.Limits
	// SaveEvery is the shortest time between two background saves of a root layer; 0 means that of the
	// keeper.
	SaveEvery spec.Duration
	// Prices are the prices of models; they win over the usual ones.
	Prices []price.Price
	// StoreLimit is how much of the disk the state directory may take, in bytes; 0 means no limit.
	// Beyond it Bothy adds nothing; running sandboxes continue.
	StoreLimit int64
	// Claims returns the sandboxes, by ID, that unattended work needs or could resume with, each
	// with the name of that work. An error means that there may be more. May be nil.
	Claims func() (map[string]string, error)

	// BeforeStart is called before a sandbox starts, under the sandbox's lock. It finishes restores
	// that were interrupted. If it is nil, a sandbox with half-restored files does not start.
	BeforeStart func(*spec.Sandbox) error
	// Running is called for a sandbox that was started, or is found running. May be nil.
	Running func(*spec.Sandbox)

	hold       rootfs.Hold
	reserved   heldLocks // of sandboxes for one command and of forks: no other process may sweep one before its first start
	unfinished heldLocks // of sandboxes that this process is creating: see MarkUnfinished
}

// Info describes a sandbox for a list.
type Info struct {
	Spec   *spec.Sandbox
	Status spec.Status // the lock corrects its State
}

// Say tells the user of the current step.
func (e *Engine) Say(format string, args ...any) {
	if e.Progress != nil {
		e.Progress(fmt.Sprintf(format, args...))
	}
}

// Keepers reaches the keepers of the sandboxes.
func (e *Engine) Keepers() keeperclient.Keepers {
	return keeperclient.Keepers{Store: e.Store, Say: e.Say}
}

// Status returns a sandbox's status, with the state corrected by the lock.
func (e *Engine) Status(sb *spec.Sandbox) spec.Status { return e.Keepers().Status(sb) }

// List returns all sandboxes, sorted by name.
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

// Find returns the sandbox with a name or an id.
func (e *Engine) Find(ref string) (*spec.Sandbox, error) {
	list, err := e.Store.List()
	if err != nil {
		return nil, err
	}
	for _, is := range []func(*spec.Sandbox) string{
		func(sb *spec.Sandbox) string { return sb.ID }, // first: users cannot choose an id
		func(sb *spec.Sandbox) string { return sb.Name },
	} {
		if i := slices.IndexFunc(list, func(sb *spec.Sandbox) bool { return is(sb) == ref }); i >= 0 {
			return list[i], nil
		}
	}
	return nil, spec.Errorf(spec.ErrNotFound, "no sandbox named %q", ref).WithHint("list sandboxes: bothy ls")
}

// FindFor returns the sandbox of an agent in a directory, to which bothy run comes back. It returns
// nil if none exists, and the oldest of several (made with --name).
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

// Create records a new sandbox. If the name is empty, Create chooses one from the agent and the
// directory. The files that the functions in more write exist as soon as the sandbox's directory
// appears.
func (e *Engine) Create(ctx context.Context, sb *spec.Sandbox, more ...func(store.Sandbox) error) error {
	e.Sweep()
	defer e.Images().Release() // after the names lock is released: it may sweep
	lock, err := e.LockNames(ctx)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return e.create(ctx, sb, more)
}

// Obtain returns the existing sandbox for a wish: by its name or, without a name, that of the same
// agent in the same directory. Otherwise it creates the wish. Of several concurrent callers only
// one creates it.
func (e *Engine) Obtain(ctx context.Context, wish *spec.Sandbox, more ...func(store.Sandbox) error) (sb *spec.Sandbox, created bool, err error) {
	e.Sweep()
	defer e.Images().Release()
	lock, err := e.LockNames(ctx)
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

// LockNames takes the names lock. A holder keeps it for long if it clones a repository for a
// sandbox.
func (e *Engine) LockNames(ctx context.Context) (*store.Lock, error) {
	defer e.Keepers().Patiently("another bothy makes a sandbox; waiting for it")()
	return e.Store.NamesLock(ctx)
}

// Existing returns the sandbox that [Engine.Obtain] would return for a wish, or nil if Obtain would
// create one.
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

// create adds a new sandbox that begins with the contents of its template. The caller holds the
// names lock.
func (e *Engine) create(ctx context.Context, sb *spec.Sandbox, more []func(store.Sandbox) error) error {
	return e.addSandbox(ctx, sb, append([]func(store.Sandbox) error{e.Templates().Begin(ctx, sb), e.Changes().MakeClones(ctx, sb)}, more...)...)
}

// addSandbox adds a sandbox. The caller holds the names lock.
func (e *Engine) addSandbox(ctx context.Context, sb *spec.Sandbox, fill ...func(store.Sandbox) error) error {
	if err := e.CheckRoom(); err != nil {
		return err
	}
	if err := workspace.Check(sb); err != nil {
		return err
	}
	if err := e.checkAPIPorts(sb); err != nil {
		return err
	}
	if err := hostroot.CheckMounts(sb.Mounted()); err != nil { // the sandbox could never be started
		return err
	}
	if sb.Limits.CPUs > 0 || sb.Limits.Memory > 0 {
		if err := cgroup.Check(sb.Limits); err != nil {
			return &spec.Error{Class: spec.ErrSandbox, Op: "create a sandbox", Err: err, Hint: spec.Hint(err)}
		}
	}
	if err := e.Changes().CheckReviewed(sb); err != nil {
		return err
	}
	_ = e.Store.SweepNew()
	taken, err := takenNames(e.Store)
	if err != nil {
		return err
	}
	if sb.Name == "" {
		sb.Name = freeName(sb, taken)
	}
	if err := checkFree(sb.Name, taken); err != nil {
		return err
	}
	if err := changes.CheckCloned(sb); err != nil {
		return err
	}
	if _, err := e.Programs().Dirs(sb); err != nil { // the program may have been removed since it was chosen
		return err
	}
	if _, err := e.Images().Root(ctx, sb); err != nil { // likewise
		return err
	}
	if sb.Remove {
		fill = append([]func(store.Sandbox) error{e.reserved.lockOnCreation(sb.ID, store.Sandbox.MakerLock)}, fill...)
	}
	if _, err = e.Store.Create(sb, fill...); err != nil {
		e.reserved.release(sb.ID)
		e.unfinished.release(sb.ID)
	}
	return err
}

// Sweep removes the remains of crashed commands: half-removed directories, half-made forks, and
// sandboxes for one command that is over.
func (e *Engine) Sweep() {
	_ = e.Store.Sweep()
	list, err := e.Store.List()
	if err != nil {
		return
	}
	for _, sb := range list {
		_ = shelfOf(e.Store.Sandbox(sb.ID)).Tidy() // a killed command may have left a memory image
		if sb.Build != nil && !cache.Running(sb.Build.Lock) {
			_ = e.Remove(context.Background(), sb, true)
			continue
		}
		d := e.Store.Sandbox(sb.ID)
		if !sb.Remove && !d.HasMaker() {
			continue
		}
		left := !d.Awaited() // read before the status: a creator that just released its lock may have started it
		if !sb.Remove && (!left || d.MayHaveStarted()) {
			continue // a fork that is being made, or was started and may have work in it
		}
		st := e.Status(sb)
		if st.State == spec.Stopped && (left || st.StartedAt != nil) {
			_ = e.Remove(context.Background(), sb, true)
		}
	}
}

// takenNames returns the names of all sandboxes.
func takenNames(s *store.Store) (map[string]bool, error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, sb := range list {
		taken[sb.Name] = true
	}
	return taken, nil
}

// CheckNames refuses names that no sandbox can have, or that are taken. It accepts an empty name, which
// is chosen when it is needed.
func (e *Engine) CheckNames(names []string) error {
	taken, err := takenNames(e.Store)
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

// freeName returns the sandbox's default name, numbered if it is taken.
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
