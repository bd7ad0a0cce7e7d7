// Package store knows the places of all state on disk, and keeps each document whole. It writes a
// document to a temporary file, syncs and renames it. So a reader, even after a crash, sees the
// old or the new text and never half of one. Locks are flocks, which the kernel drops when their
// holder dies.
//
// The files are described one by one in docs/reference/state.md.
package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/passwd"
	"github.com/bothy-dev/bothy/spec"
)

// Store is one state directory.
type Store struct{ dir string }

// Dir returns the state directory of the calling user: $BOTHY_HOME, else $XDG_DATA_HOME/bothy,
// else ~/.local/share/bothy.
func Dir() (string, error) {
	if dir := os.Getenv("BOTHY_HOME"); dir != "" {
		return Absolute(dir)
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "bothy"), nil
	}
	home, err := Home()
	if err != nil {
		return "", (&spec.Error{Op: "find the state directory", Err: err}).
			WithHint("set BOTHY_HOME to a directory for Bothy's state")
	}
	return filepath.Join(home, ".local", "share", "bothy"), nil
}

// Absolute returns the path of a state directory that may be relative to the current directory.
func Absolute(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil { // the current directory was removed
		return "", &spec.Error{Op: "find the state directory " + dir, Err: err}
	}
	return path, nil
}

// Names in the state directory.
const (
	sandboxesName = "sandboxes"
	cacheName     = "cache"
	policyName    = "policy.yaml"
	namesLock     = "names.lock"
	policyLock    = "policy.lock"
	secretsName   = "secrets"
	agentsName    = "agents"
	templatesName = "templates"
	imagesName    = "images"
	importsName   = "imports"
	ownerName     = "owner.key"
	tasksName     = "tasks"
	buildsName    = "builds"
	runsName      = "runs"
	awayName      = "away"
	countedName   = "counted.json"
	writtenName   = "written.json"
	writtenLock   = "written.lock"
	sshName       = "ssh"
	socketName    = "api.sock"
	apiName       = "api"
)

// names has all of these.
var names = []string{sandboxesName, cacheName, namesLock, policyName, policyLock, secretsName, agentsName, templatesName, imagesName, importsName, ownerName, tasksName, buildsName, runsName, awayName, countedName, writtenName, writtenLock, sshName, socketName, apiName}

// Counted records how much disk space the state directory took at the last look.
func (s *Store) Counted() string { return filepath.Join(s.dir, countedName) }

// Written names the directories of the host that sandboxes have written to.
func (s *Store) Written() string { return filepath.Join(s.dir, writtenName) }

// WrittenLock is the lock for changes of that file.
func (s *Store) WrittenLock() string { return filepath.Join(s.dir, writtenLock) }

// APISocket is the socket of bothy serve. It need not exist.
func (s *Store) APISocket() string { return filepath.Join(s.dir, socketName) }

// API is the directory of the files of bothy serve: its tokens, its locks, answers to be repeated. It need
// not exist.
func (s *Store) API() string { return filepath.Join(s.dir, apiName) }

// Path is the state directory itself.
func (s *Store) Path() string { return s.dir }

// Sandboxes is the directory of all sandboxes.
func (s *Store) Sandboxes() string { return s.sandboxes() }

func (s *Store) sandboxes() string { return filepath.Join(s.dir, sandboxesName) }

// Cache is the directory of a template's derived files. They can be removed whenever no sandbox
// runs.
func (s *Store) Cache() string { return filepath.Join(s.dir, cacheName) }

// Policy is the user's own network rules, which hold in every sandbox.
func (s *Store) Policy() string { return filepath.Join(s.dir, policyName) }

// PolicyLock is held while rules are changed, those of a sandbox too.
func (s *Store) PolicyLock() (*Lock, error) {
	return WaitLock(filepath.Join(s.dir, policyLock))
}

// Secrets is where secrets are kept. It need not exist.
func (s *Store) Secrets() string { return filepath.Join(s.dir, secretsName) }

// Agents is the directory of the programs that Bothy installed. It need not exist.
func (s *Store) Agents() string { return filepath.Join(s.dir, agentsName) }

// Templates is the directory of templates made from sandboxes. It need not exist.
func (s *Store) Templates() string { return filepath.Join(s.dir, templatesName) }

// Images is the directory of container images. It need not exist.
func (s *Store) Images() string { return filepath.Join(s.dir, imagesName) }

// Imports is where imported checkpoints are checked. It need not exist.
func (s *Store) Imports() string { return filepath.Join(s.dir, importsName) }

// OwnerKey is the key that seals files that leave the state directory and may come back. It need
// not exist.
func (s *Store) OwnerKey() string { return filepath.Join(s.dir, ownerName) }

// Tasks is the directory of the projects' tasks. It need not exist.
func (s *Store) Tasks() string { return filepath.Join(s.dir, tasksName) }

// Builds is the directory of leftovers of builds.
func (s *Store) Builds() string { return filepath.Join(s.dir, buildsName) }

// Runs is the directory of the runs of loops and flows. It need not exist.
func (s *Store) Runs() string { return filepath.Join(s.dir, runsName) }

// Away records how to make sandboxes again that were put away. It need not exist.
func (s *Store) Away() string { return filepath.Join(s.dir, awayName) }

// SSH is the directory of the files by which SSH clients find sandboxes. It need not exist.
func (s *Store) SSH() string { return filepath.Join(s.dir, sshName) }

// HostKey is the key by which SSH clients recognise sandboxes.
func (s *Store) HostKey() string { return filepath.Join(s.SSH(), "host_key") }

// SSHLock is held while files of the directory SSH are made.
func (s *Store) SSHLock() (*Lock, error) { return WaitLock(filepath.Join(s.SSH(), "lock")) }

// OpenRegular opens a regular file for reading, and nothing that could block the caller. flags
// are added to those of open(2).
func OpenRegular(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	return f, nil
}

// ReadAll reads a stream of at most so many bytes to its end. It refuses a longer one: a part of
// it would mean something else.
func ReadAll(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("it is larger than %d KiB", most>>10)
	}
	return data, err
}

// ReadFile reads a regular file of at most so many bytes. flags are added to those of
// open(2).
func ReadFile(path string, flags int, most int64) ([]byte, error) {
	f, err := OpenRegular(path, flags)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, most)
}

// Same reports whether two readers return the same bytes, to their ends.
func Same(a, b io.Reader) (bool, error) {
	const first, rest = 4 << 10, 128 << 10 // most are small, and differ soon if they do
	x, y := make([]byte, first), make([]byte, first)
	for {
		n, err := io.ReadFull(a, x)
		m, err2 := io.ReadFull(b, y)
		for _, failed := range []error{err, err2} {
			if failed != nil && !isEnd(failed) {
				return false, failed // a reader that fails early looks shorter than it is
			}
		}
		if !bytes.Equal(x[:n], y[:m]) || isEnd(err) != isEnd(err2) {
			return false, nil
		}
		if err != nil {
			return true, nil
		}
		if len(x) < rest {
			x, y = make([]byte, rest), make([]byte, rest)
		}
	}
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// WriteJSON replaces a document: temporary file, sync, rename, sync of the
// directory.
func WriteJSON(path string, v any) error {
	data, err := encode(path, v)
	if err != nil {
		return err
	}
	return WriteFile(path, data)
}

func encode(path string, v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return append(data, '\n'), nil
}

// WriteFile replaces a file by the same steps as WriteJSON. Its mode is 0600.
func WriteFile(path string, data []byte) error {
	d, err := NewDraft(path, data)
	if err != nil {
		return err
	}
	defer d.Drop()
	err = d.Sync()
	if err == nil {
		err = d.Place()
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Draft is the new text of a file that is not in place yet, for a caller that syncs more than one
// file at once.
type Draft struct {
	f      *os.File
	path   string
	placed bool
}

// NewDraft writes a text beside a file. Its mode is 0600. The caller drops the draft.
func NewDraft(path string, data []byte) (*Draft, error) {
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	d := &Draft{f: f, path: path}
	if _, err = f.Write(data); err != nil {
		d.Drop()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return d, nil
}

// DraftJSON is NewDraft for a document.
func DraftJSON(path string, v any) (*Draft, error) {
	data, err := encode(path, v)
	if err != nil {
		return nil, err
	}
	return NewDraft(path, data)
}

// Sync brings the text to the disk.
func (d *Draft) Sync() error { return errors.Join(d.f.Sync(), d.f.Close()) }

// Place moves the text into the file's place. It is durable once the directory is synced.
func (d *Draft) Place() error {
	err := os.Rename(d.f.Name(), d.path)
	d.placed = err == nil
	return err
}

// Drop removes a draft that was not placed.
func (d *Draft) Drop() {
	_ = d.f.Close() // it may be already
	if !d.placed {
		_ = os.Remove(d.f.Name())
	}
}

// tempPrefix marks files that are being written. A crash leaves them behind.
const tempPrefix = ".tmp-"

// tempAge is the age from which such a file has no writer any more.
const tempAge = time.Minute

// SweepTemp removes leftovers of crashed writers in a directory, if they are older than age.
func SweepTemp(dir string, age time.Duration) {
	names, _ := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) >= age {
			_ = os.Remove(name)
		}
	}
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// AtOnce runs steps that wait for the disk, all at once. A file system with a journal then writes
// it once for all of them, instead of once for each.
func AtOnce(steps ...func() error) error {
	errs := make([]error, len(steps))
	slots := make(chan struct{}, abreast)
	var all sync.WaitGroup
	for i, step := range steps {
		slots <- struct{}{}
		all.Go(func() {
			errs[i] = step()
			<-slots
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// abreast is how many such steps run at a time: each takes a thread.
const abreast = 16

// SyncFiles syncs a directory of files, and the files. It returns their total size in bytes.
func SyncFiles(dir string) (size int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	sizes := make([]int64, len(entries))
	steps := []func() error{func() error { return SyncDir(dir) }}
	for i, e := range entries {
		steps = append(steps, func() (err error) {
			sizes[i], err = syncFile(filepath.Join(dir, e.Name()))
			return err
		})
	}
	if err := AtOnce(steps...); err != nil {
		return 0, err
	}
	for _, n := range sizes {
		size += n
	}
	return size, nil
}

func syncFile(path string) (int64, error) {
	f, err := OpenRegular(path, unix.O_NOFOLLOW)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// SyncFS syncs the file system of a directory.
func SyncFS(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("bring %s to the disk: %w", dir, err)
	}
	return nil
}

// TreeSize adds up the files of a tree, in bytes.
func TreeSize(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// ReadJSON reads a document into v. A missing one is fs.ErrNotExist. A document that a newer
// Bothy wrote is a conflict, as spec.CheckVersion reports it, whatever else it contains.
func ReadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := CheckVersion(path, data); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// IsFull reports whether an operation failed because a disk or the user's quota is full.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// FullHint returns a hint for a full disk of the state directory.
func (s *Store) FullHint() string {
	return fmt.Sprintf("free some space on the disk of %s (bothy system df tells what takes it, bothy system prune and bothy prune give some back), or set BOTHY_HOME to a directory on another disk", s.dir)
}

// unopened returns the error, with a hint, for a file of the state directory that cannot be opened.
func unopened(op string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // op names the file
	}
	e := &spec.Error{Op: op, Err: err}
	switch {
	case errors.Is(err, unix.EROFS):
		return e.WithHint("the state directory can only be read: make its file system writable (mount -o remount,rw), or set BOTHY_HOME to another directory")
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return e.WithHint("too many files are open: close some, or raise the limit: ulimit -n")
	case errors.Is(err, fs.ErrPermission):
		return e.WithHint("the state directory belongs to another user: use your own, or set BOTHY_HOME")
	}
	return e
}

// Home returns the caller's home directory, by $HOME, else by the account.
func Home() (string, error) {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	accounts, err := passwd.Read()
	if err != nil {
		return "", err
	}
	if home := homeOf(accounts, os.Getuid()); home != "" {
		return home, nil
	}
	return "", errors.New("HOME is not set and the account has no home directory")
}
