package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/passwd"
	"github.com/bothy-dev/bothy/spec"
)

// Sandbox is the directory of one sandbox.
type Sandbox struct{ Dir string }

// Names of the files in a sandbox's directory.
func (d Sandbox) Spec() string   { return filepath.Join(d.Dir, "spec.json") }
func (d Sandbox) Policy() string { return filepath.Join(d.Dir, "policy.yaml") }
func (d Sandbox) Leases() string { return filepath.Join(d.Dir, "leases.json") }
func (d Sandbox) Lent() string   { return filepath.Join(d.Dir, "lent") } // exists once a credential was lent

// Login is the file with the tokens of a lease whose login was made inside. Logins is the directory of
// all of them. It need not exist.
func (d Sandbox) Login(lease string) string { return filepath.Join(d.Logins(), lease+".json") }
func (d Sandbox) Logins() string            { return filepath.Join(d.Dir, "login") }

func (d Sandbox) Mock() string    { return filepath.Join(d.Dir, "mock.yaml") }
func (d Sandbox) Status() string  { return filepath.Join(d.Dir, "status.json") }
func (d Sandbox) Lock() string    { return filepath.Join(d.Dir, "lock") }
func (d Sandbox) Control() string { return filepath.Join(d.Dir, "control.sock") }

// MakerLock is held by the maker of a sandbox for one command, as long as it may start the sandbox. It
// is also held by the maker of a fork in which programs are to resume; the maker removes the file once
// they have.
func (d Sandbox) MakerLock() string { return filepath.Join(d.Dir, "maker.lock") }

// HasMaker reports whether the file of that lock exists.
func (d Sandbox) HasMaker() bool {
	_, err := os.Lstat(d.MakerLock())
	return err == nil
}

// Awaited reports whether a process holds the [Sandbox.MakerLock], and may still start the sandbox.
func (d Sandbox) Awaited() bool {
	lock, err := TryLockThere(d.MakerLock())
	if err == nil {
		lock.Unlock()
	}
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// MakingLock exists from before a sandbox appears until the sandbox is finished. Its maker holds it. If
// no process holds it, the maker was killed or gave up.
func (d Sandbox) MakingLock() string { return filepath.Join(d.Dir, "making.lock") }

// WantedLock is shared by the callers that wait for a sandbox that another process makes. A maker that
// takes the sandbox back holds it exclusively.
func (d Sandbox) WantedLock() string { return filepath.Join(d.Dir, "wanted.lock") }

// Aside is the path of the control socket before the keeper is ready and while it ends: no caller is to
// find the socket then.
func (d Sandbox) Aside() string   { return filepath.Join(d.Dir, ".control.sock") }
func (d Sandbox) Cgroup() string  { return filepath.Join(d.Dir, "cgroup") }
func (d Sandbox) Home() string    { return filepath.Join(d.Dir, "home") }
func (d Sandbox) Layers() string  { return filepath.Join(d.Dir, "layers") }
func (d Sandbox) Kept() string    { return filepath.Join(d.Dir, "kept") }
func (d Sandbox) Scratch() string { return filepath.Join(d.Dir, "scratch") }

// Programs is where root's keeper sees the host's programs, owned by the user nobody.
func (d Sandbox) Programs() string { return filepath.Join(d.Dir, "programs") }

func (d Sandbox) Log(name string) string {
	return filepath.Join(d.Dir, "log", name)
}

// NetworkLog records refused and ended connections.
func (d Sandbox) NetworkLog() string { return d.Log("network.jsonl") }

// ModelLog records the requests to the sandbox's mock.
func (d Sandbox) ModelLog() string { return d.Log("model.jsonl") }

// Bill records the sandbox's use of models.
func (d Sandbox) Bill() string { return filepath.Join(d.Dir, "bill.json") }

// SetUp records which commands of a devcontainer.json were run. SetUpLock is held by the process that
// runs them.
func (d Sandbox) SetUp() string     { return filepath.Join(d.Dir, "setup.json") }
func (d Sandbox) SetUpLock() string { return filepath.Join(d.Dir, "setup.lock") }

// Private is the n-th of the spec's private directories.
func (d Sandbox) Private(n int) string {
	return filepath.Join(d.Dir, "private", strconv.Itoa(n))
}

// Checkpoints is the directory of the sandbox's checkpoints. It need not exist.
func (d Sandbox) Checkpoints() string { return filepath.Join(d.Dir, "checkpoints") }

// AttendLock is held by the process that makes automatic checkpoints.
func (d Sandbox) AttendLock() string { return filepath.Join(d.Dir, "attend.lock") }

// Review is the directory of the layer over the n-th workspace, if its changes are reviewed. ReviewLock
// is held while changes are applied or discarded.
func (d Sandbox) Review(n int) string {
	return filepath.Join(d.Dir, "review", strconv.Itoa(n))
}
func (d Sandbox) ReviewLock() string { return filepath.Join(d.Dir, "review.lock") }

// Clone is the directory of the clone of the n-th workspace, if it has one. CloneLock is held during a
// fetch from it.
func (d Sandbox) Clone(n int) string {
	return filepath.Join(d.Dir, "clone", strconv.Itoa(n))
}
func (d Sandbox) CloneLock() string { return filepath.Join(d.Dir, "clone.lock") }

// ID returns the sandbox's id, the name of its directory.
func (d Sandbox) ID() string { return filepath.Base(d.Dir) }

// Sandbox returns the directory of an id. It need not exist.
func (s *Store) Sandbox(id string) Sandbox {
	return Sandbox{filepath.Join(s.sandboxes(), id)}
}

// NewID returns a fresh id of 12 hex digits. All ids have one length, so none is a prefix of another.
func NewID() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

const idLength = 12

// IsID reports whether a name has the form of an id.
func IsID(name string) bool {
	_, err := hex.DecodeString(name)
	return err == nil && len(name) == idLength
}

// NamesLock is held while a name is chosen and its sandbox created. A waiting caller gives up when ctx
// ends.
func (s *Store) NamesLock(ctx context.Context) (*Lock, error) {
	return AwaitLock(ctx, filepath.Join(s.dir, namesLock))
}

// newPrefix marks directories that are being made.
const newPrefix = ".new-"

// Create makes the directory of a new sandbox appear in one step, with its spec and all further files in
// it.
func (s *Store) Create(sb *spec.Sandbox, more ...func(Sandbox) error) (Sandbox, error) {
	tmp := Sandbox{filepath.Join(s.sandboxes(), newPrefix+sb.ID)}
	fail := func(err error) (Sandbox, error) {
		os.RemoveAll(tmp.Dir)
		return Sandbox{}, fmt.Errorf("create sandbox %s: %w", sb.Name, err)
	}
	for _, d := range []string{tmp.Dir, tmp.Home(), tmp.Layers(), tmp.Log("")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fail(err)
		}
	}
	draft, err := specOf(tmp, sb)
	if err != nil {
		return fail(err)
	}
	defer draft.Drop()
	for _, write := range more {
		if err := write(tmp); err != nil {
			return fail(err)
		}
	}
	if err := AtOnce(draft.Sync, func() error { return SyncDir(tmp.Dir) }); err != nil {
		return fail(err)
	}
	d := s.Sandbox(sb.ID)
	if err := os.Rename(tmp.Dir, d.Dir); err != nil {
		return fail(err)
	}
	return d, SyncDir(s.sandboxes())
}

// specOf drafts the spec of a sandbox and puts it in place, in a directory that no other caller reads
// yet.
func specOf(d Sandbox, sb *spec.Sandbox) (*Draft, error) {
	draft, err := DraftJSON(d.Spec(), sb)
	if err != nil {
		return nil, err
	}
	if err := draft.Place(); err != nil {
		draft.Drop()
		return nil, err
	}
	return draft, nil
}

// List returns all sandboxes, without those that are half made or half removed. A sandbox with an
// unreadable spec is listed as broken.
func (s *Store) List() ([]*spec.Sandbox, error) {
	entries, err := os.ReadDir(s.sandboxes())
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	var list []*spec.Sandbox
	for _, e := range entries {
		if !IsID(e.Name()) {
			continue
		}
		sb, err := s.Load(e.Name())
		if _, gone := os.Lstat(s.Sandbox(e.Name()).Dir); gone != nil {
			continue // removed meanwhile
		}
		if err != nil {
			sb = &spec.Sandbox{ID: e.Name(), Name: e.Name(), Broken: err.Error(), Mend: spec.Hint(err)}
			if newer := (*newerSpec)(nil); errors.As(err, &newer) && spec.CheckName(newer.Name) == nil {
				sb.Name = newer.Name
			}
		}
		list = append(list, sb)
	}
	return list, nil
}

// newerSpec is the error for a spec that a newer Bothy wrote.
type newerSpec struct {
	Name string // as in the spec, where it may be any text
	err  error
}

func (n *newerSpec) Error() string { return "open sandbox " + n.Name + ": " + n.err.Error() }
func (n *newerSpec) Unwrap() error { return n.err }

// readName reads the name from a spec that is not understood otherwise.
func readName(path string) string {
	var named struct {
		Name string `json:"name"`
	}
	data, err := ReadFile(path, unix.O_NOFOLLOW, maxNewer)
	if err != nil || json.Unmarshal(data, &named) != nil {
		return ""
	}
	return named.Name
}

// maxNewer bounds the spec of a newer version, in bytes.
const maxNewer = 16 << 20

// Load reads the spec of an id.
func (s *Store) Load(id string) (*spec.Sandbox, error) {
	d := s.Sandbox(id)
	sb := &spec.Sandbox{}
	err := ReadJSON(d.Spec(), sb)
	if errors.Is(err, spec.ErrNewer) {
		return nil, &newerSpec{Name: readName(d.Spec()), err: err}
	}
	if err != nil {
		return nil, err
	}
	if err := spec.CheckWorkspaceMode(sb.WorkspaceMode); err != nil {
		return nil, fmt.Errorf("read %s: %w", d.Spec(), err)
	}
	if sb.ID != id {
		return nil, fmt.Errorf("read %s: it names another sandbox, %q", d.Spec(), sb.ID)
	}
	return sb, nil
}

// Has reports whether a sandbox exists. It is false only if the sandbox was removed; a sandbox whose
// spec cannot be read still exists.
func (s *Store) Has(id string) bool {
	_, err := s.Load(id)
	return !errors.Is(err, fs.ErrNotExist)
}

// ReadStatus reads a sandbox's status; a missing or torn one reads as stopped.
func (d Sandbox) ReadStatus() spec.Status {
	st, _ := d.LastStatus()
	return st
}

// LastStatus is ReadStatus that also reports whether a status could be read.
func (d Sandbox) LastStatus() (st spec.Status, known bool) {
	if err := ReadJSON(d.Status(), &st); err != nil {
		return spec.Status{Version: spec.Version, State: spec.Stopped}, false
	}
	return st, true
}

// CheckStatus returns an error if a newer Bothy wrote the status: a rewrite would lose data that only
// the newer one knows.
func (d Sandbox) CheckStatus() error {
	var st spec.Status
	if err := ReadJSON(d.Status(), &st); errors.Is(err, spec.ErrNewer) {
		return err
	}
	return nil
}

// MayHaveStarted reports whether a sandbox was started before, or that is unknown.
func (d Sandbox) MayHaveStarted() bool {
	var st spec.Status
	err := ReadJSON(d.Status(), &st)
	return st.StartedAt != nil || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// Reach gives the owner access to the directory. It removes a file that has the place of the directory,
// from which no sandbox can run.
func (d Sandbox) Reach() error {
	info, err := os.Lstat(d.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return os.Remove(d.Dir)
	case info.Mode().Perm()&0o700 == 0o700:
		return nil
	}
	return allowOwner(unix.AT_FDCWD, d.Dir)
}

// removedPrefix marks directories that are being removed. They belong to no sandbox, and any process may
// delete them at any time.
const removedPrefix = ".gone-"

// Remove makes a sandbox disappear at once and then deletes its files.
func (s *Store) Remove(id string) error {
	d := s.Sandbox(id)
	gone := filepath.Join(s.sandboxes(), removedPrefix+id+"-"+NewID())
	if err := os.Rename(d.Dir, gone); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	return RemoveTree(gone)
}

// SweepTemp deletes the leftovers of crashed writers. It may be called at any time: rules and leases are
// written whether or not a process has the sandbox's lock.
func (d Sandbox) SweepTemp() { SweepTemp(d.Dir, tempAge) }

// Sweep deletes the leftovers of crashed removals. It may be called at any time.
func (s *Store) Sweep() error {
	SweepTemp(s.dir, tempAge)
	return s.sweepPrefix(removedPrefix)
}

// SweepNew deletes the leftovers of crashed creations. The caller holds the names lock, so no other
// process creates a sandbox.
func (s *Store) SweepNew() error { return s.sweepPrefix(newPrefix) }

func (s *Store) sweepPrefix(prefix string) error {
	entries, err := os.ReadDir(s.sandboxes())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			errs = append(errs, RemoveTree(filepath.Join(s.sandboxes(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

// homeOf finds the home directory of a uid.
func homeOf(accounts []passwd.Account, uid int) string {
	for _, a := range accounts {
		if a.UID == uid && filepath.IsAbs(a.Home) {
			return a.Home
		}
	}
	return ""
}
