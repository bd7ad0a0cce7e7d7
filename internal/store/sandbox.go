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
func (d Sandbox) Lent() string   { return filepath.Join(d.Dir, "lent") } // there once a credential was

// Login is where the tokens lie of a lease whose login was made inside, and Logins where all
// do. It need not exist.
func (d Sandbox) Login(lease string) string { return filepath.Join(d.Logins(), lease+".json") }
func (d Sandbox) Logins() string            { return filepath.Join(d.Dir, "login") }

func (d Sandbox) Mock() string    { return filepath.Join(d.Dir, "mock.yaml") }
func (d Sandbox) Status() string  { return filepath.Join(d.Dir, "status.json") }
func (d Sandbox) Lock() string    { return filepath.Join(d.Dir, "lock") }
func (d Sandbox) Control() string { return filepath.Join(d.Dir, "control.sock") }

// MakerLock is held by who makes a sandbox for one command, as long as they may start it; or
// who makes a fork in which programs are to go on, until they do, and then it is gone.
func (d Sandbox) MakerLock() string { return filepath.Join(d.Dir, "maker.lock") }

// HasMaker tells whether the file of that lock is there.
func (d Sandbox) HasMaker() bool {
	_, err := os.Lstat(d.MakerLock())
	return err == nil
}

// Awaited tells whether somebody is there who has its [Sandbox.MakerLock], and may start it
// yet.
func (d Sandbox) Awaited() bool {
	lock, err := TryLockThere(d.MakerLock())
	if err == nil {
		lock.Unlock()
	}
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// MakingLock is there from before a sandbox appears until it has what it is to begin with,
// and held by who makes it. One that nobody holds is of somebody who was killed, or gave up.
func (d Sandbox) MakingLock() string { return filepath.Join(d.Dir, "making.lock") }

// WantedLock is shared by who waits for a sandbox that somebody else makes, and held alone by
// who takes it back.
func (d Sandbox) WantedLock() string { return filepath.Join(d.Dir, "wanted.lock") }

// Aside is where the control socket is while nobody shall come by it: before the
// keeper is ready, and while it ends.
func (d Sandbox) Aside() string   { return filepath.Join(d.Dir, ".control.sock") }
func (d Sandbox) Cgroup() string  { return filepath.Join(d.Dir, "cgroup") }
func (d Sandbox) Home() string    { return filepath.Join(d.Dir, "home") }
func (d Sandbox) Layers() string  { return filepath.Join(d.Dir, "layers") }
func (d Sandbox) Kept() string    { return filepath.Join(d.Dir, "kept") }
func (d Sandbox) Scratch() string { return filepath.Join(d.Dir, "scratch") }

// Programs is where a keeper of root's sees the host's programs as nobody's.
func (d Sandbox) Programs() string { return filepath.Join(d.Dir, "programs") }

func (d Sandbox) Log(name string) string {
	return filepath.Join(d.Dir, "log", name)
}

// NetworkLog has what was refused on the network, and what ended.
func (d Sandbox) NetworkLog() string { return d.Log("network.jsonl") }

// ModelLog has what the sandbox's mock was asked.
func (d Sandbox) ModelLog() string { return d.Log("model.jsonl") }

// Bill has what the models took that the sandbox asked.
func (d Sandbox) Bill() string { return filepath.Join(d.Dir, "bill.json") }

// SetUp tells which commands of a devcontainer.json were run. SetUpLock is held by who
// has them run.
func (d Sandbox) SetUp() string     { return filepath.Join(d.Dir, "setup.json") }
func (d Sandbox) SetUpLock() string { return filepath.Join(d.Dir, "setup.lock") }

// Private is where the n-th of the spec's private directories lies.
func (d Sandbox) Private(n int) string {
	return filepath.Join(d.Dir, "private", strconv.Itoa(n))
}

// Checkpoints is where the sandbox's checkpoints lie. It need not exist.
func (d Sandbox) Checkpoints() string { return filepath.Join(d.Dir, "checkpoints") }

// AttendLock is held by the process that makes checkpoints nobody asks for.
func (d Sandbox) AttendLock() string { return filepath.Join(d.Dir, "attend.lock") }

// Review is where the layer over the n-th workspace lies, if its changes are
// reviewed. ReviewLock is held while changes are applied or discarded.
func (d Sandbox) Review(n int) string {
	return filepath.Join(d.Dir, "review", strconv.Itoa(n))
}
func (d Sandbox) ReviewLock() string { return filepath.Join(d.Dir, "review.lock") }

// Clone is where the clone of the n-th workspace lies, if it has one. CloneLock is
// held while somebody fetches from it.
func (d Sandbox) Clone(n int) string {
	return filepath.Join(d.Dir, "clone", strconv.Itoa(n))
}
func (d Sandbox) CloneLock() string { return filepath.Join(d.Dir, "clone.lock") }

// ID is the sandbox's id, the name of its directory.
func (d Sandbox) ID() string { return filepath.Base(d.Dir) }

// Sandbox gives the directory of an id. It need not exist.
func (s *Store) Sandbox(id string) Sandbox {
	return Sandbox{filepath.Join(s.sandboxes(), id)}
}

// NewID makes a fresh id: 12 hex digits. All ids have one length, so that none
// is the beginning of another.
func NewID() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

const idLength = 12

// IsID tells whether a name is that of an id.
func IsID(name string) bool {
	_, err := hex.DecodeString(name)
	return err == nil && len(name) == idLength
}

// NamesLock is held while a name is chosen and its sandbox created. Who waits for it
// gives up when ctx ends.
func (s *Store) NamesLock(ctx context.Context) (*Lock, error) {
	return AwaitLock(ctx, filepath.Join(s.dir, namesLock))
}

// newPrefix marks directories that are being made.
const newPrefix = ".new-"

// Create makes the directory of a new sandbox appear with its spec in it, and
// what else is to be written, all at once.
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

// specOf puts the spec of a sandbox in its place, where nobody looks yet.
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

// List gives every sandbox there is, those half made or half removed left out.
// One whose spec cannot be read is listed as broken.
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
	Name string // as the spec has it, which may be anything
	err  error
}

func (n *newerSpec) Error() string { return "open sandbox " + n.Name + ": " + n.err.Error() }
func (n *newerSpec) Unwrap() error { return n.err }

// readName reads the name out of a spec of which no more is understood.
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

// LastStatus is ReadStatus that tells whether there was one to read.
func (d Sandbox) LastStatus() (st spec.Status, known bool) {
	if err := ReadJSON(d.Status(), &st); err != nil {
		return spec.Status{Version: spec.Version, State: spec.Stopped}, false
	}
	return st, true
}

// CheckStatus returns an error if a newer Bothy wrote the status: whoever writes it anew would lose
// what that one knows.
func (d Sandbox) CheckStatus() error {
	var st spec.Status
	if err := ReadJSON(d.Status(), &st); errors.Is(err, spec.ErrNewer) {
		return err
	}
	return nil
}

// MayHaveStarted tells whether a sandbox was started once, or whether that is not known.
func (d Sandbox) MayHaveStarted() bool {
	var st spec.Status
	err := ReadJSON(d.Status(), &st)
	return st.StartedAt != nil || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// Reach has the owner reach what is in the directory. What has its name and is none, where
// nobody can run, is removed.
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
	return allow(unix.AT_FDCWD, d.Dir)
}

// removedPrefix marks directories that are on their way out. What carries it
// belongs to no sandbox and may be deleted by anybody at any time.
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

// SweepTemp deletes what crashed writers left behind. It may be called at any time: rules and
// leases are written whether or not somebody has the sandbox's lock.
func (d Sandbox) SweepTemp() { SweepTemp(d.Dir, tempAge) }

// Sweep deletes what crashed removals left behind. It may be called at any
// time.
func (s *Store) Sweep() error {
	SweepTemp(s.dir, tempAge)
	return s.sweep(removedPrefix)
}

// SweepNew deletes what crashed creations left behind. The caller holds the
// names lock: nobody else creates.
func (s *Store) SweepNew() error { return s.sweep(newPrefix) }

func (s *Store) sweep(prefix string) error {
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
