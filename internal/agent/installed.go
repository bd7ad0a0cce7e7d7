package agent

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Installation is an installed program, as its agent.json describes it.
type Installation struct {
	Document  int       `json:"version"` // the format of this document
	Name      string    `json:"name"`
	Package   string    `json:"package"`        // of the release
	Release   string    `json:"release"`        // its version
	Platform  string    `json:"platform"`       // the key of Source.Platforms
	From      string    `json:"from"`           // the unpacked package, PACKAGE@VERSION
	With      []string  `json:"with,omitempty"` // in its node_modules, likewise
	Integrity string    `json:"integrity"`      // of its tarball, checked
	Binary    string    `json:"binary"`         // below the package's directory
	Installed time.Time `json:"installed"`

	// Dir is the installation's directory. It is shared, and is never written to.
	Dir string `json:"dir,omitempty"`
}

const documentVersion = 1

// ID distinguishes an installation from others of its name: by the release, and by any unusual platform
// that it is made for.
func (i Installation) ID() string { return dirName(i.Release, i.Platform) }

// Root is the package's directory, which sandboxes see.
func (i Installation) Root() string { return filepath.Join(i.Dir, packageName) }

// Path is the program on the host.
func (i Installation) Path() string { return filepath.Join(i.Root(), i.Binary) }

// Size is the size of its files, in bytes.
func (i Installation) Size() (int64, error) { return store.TreeSize(i.Dir) }

// Names in the directory of a program. A name that begins with a dot is not an installation.
const (
	lockName     = ".lock"
	partPrefix   = ".part-" // an incomplete download
	newPrefix    = ".new-"  // being unpacked
	gonePrefix   = ".gone-" // being removed
	manifestName = "agent.json"
	packageName  = "package"
)

// Home is the directory of all versions of one program.
type Home struct{ dir, name string }

// HomeOf returns the directory of a name, which need not exist.
func HomeOf(st *store.Store, name string) (Home, error) {
	if checkInstalled(name) != nil {
		return Home{}, spec.Errorf(spec.ErrNotFound, "no agent named %q", name)
	}
	return Home{filepath.Join(st.Agents(), name), name}, nil
}

// Make creates the directory.
func (h Home) Make() error { return os.MkdirAll(h.dir, 0o700) }

// Lock is the path of the lock for changing the directory.
func (h Home) Lock() string { return filepath.Join(h.dir, lockName) }

// Part is the file of an incomplete download. Its name is a digest of the expected file, so that no
// other download continues it.
func (h Home) Part(digest []byte) string {
	return filepath.Join(h.dir, partPrefix+hex.EncodeToString(digest[:min(len(digest), 16)]))
}

// New makes a directory to unpack into. The caller holds the lock. Every user inside may read the
// unpacked package, but not the directory around it, which keeps other users of the host out.
func (h Home) New() (dir, root string, err error) {
	dir = filepath.Join(h.dir, newPrefix+unique())
	root = filepath.Join(dir, packageName)
	if err = os.MkdirAll(root, 0o700); err == nil {
		err = os.Chmod(root, 0o755)
	}
	return dir, root, err
}

func unique() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Put turns the files unpacked into dir into an installation. They are already durable. The manifest is
// written last: a directory without one does not count.
func (h Home) Put(dir string, i Installation) (Installation, error) {
	i.Document, i.Name, i.Dir = documentVersion, h.name, ""
	if err := store.WriteJSON(filepath.Join(dir, manifestName), i); err != nil {
		return i, err
	}
	to := filepath.Join(h.dir, i.ID())
	if err := os.Rename(to, filepath.Join(h.dir, gonePrefix+unique())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return i, err
	}
	if err := os.Rename(dir, to); err != nil {
		return i, err
	}
	i.Dir = to
	return i, store.SyncDir(h.dir)
}

// Sweep removes the leftovers of crashes, except the partial download to continue. The
// caller holds the lock, so that no other process is installing.
func (h Home) Sweep(keep string) error {
	left, err := h.Leftovers()
	for _, p := range left {
		if p != keep {
			err = errors.Join(err, os.RemoveAll(p))
		}
	}
	return err
}

// Leftovers returns the paths of unfinished files. A running process is making or removing
// them, or a crashed one has left them.
func (h Home) Leftovers() (left []string, err error) {
	entries, err := os.ReadDir(h.dir)
	for _, e := range entries {
		for _, prefix := range []string{newPrefix, gonePrefix, partPrefix} {
			if strings.HasPrefix(e.Name(), prefix) {
				left = append(left, filepath.Join(h.dir, e.Name()))
			}
		}
	}
	return left, err
}

func validID(id string) bool {
	return id != "" && id[0] != '.' && !strings.ContainsAny(id, "/\x00")
}

// Get reads one installation. If it is incomplete, the error is fs.ErrNotExist.
func (h Home) Get(id string) (Installation, error) {
	i := Installation{}
	if !validID(id) {
		return i, fs.ErrNotExist
	}
	dir := filepath.Join(h.dir, id)
	if err := store.ReadJSON(filepath.Join(dir, manifestName), &i); err != nil {
		return i, err
	}
	i.Dir = dir
	if i.Document < 1 || i.Name != h.name || i.ID() != id || !filepath.IsLocal(i.Binary) {
		return i, spec.Errorf(nil, "%s is damaged: its %s is of another", dir, manifestName)
	}
	if info, err := os.Lstat(i.Path()); err != nil || !info.Mode().IsRegular() {
		return i, fmt.Errorf("%s has lost its program: %w", dir, fs.ErrNotExist)
	}
	return i, nil
}

// List returns the installations, the newest release first. It leaves out unreadable ones.
func (h Home) List() ([]Installation, error) {
	entries, err := os.ReadDir(h.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []Installation
	for _, e := range entries {
		if i, err := h.Get(e.Name()); err == nil {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b Installation) int {
		return cmp.Or(-semver.Compare("v"+a.Release, "v"+b.Release), cmp.Compare(a.ID(), b.ID()))
	})
	return list, nil
}

// Find returns the installation of a release for a platform. If it is missing, the error is
// fs.ErrNotExist.
func (h Home) Find(release, platform string) (Installation, error) {
	i, err := h.Get(dirName(release, platform))
	if err == nil && i.Platform != platform {
		return i, spec.Errorf(spec.ErrConflict, "%s %s is installed for %s, not for %s", h.name, release, i.Platform, platform).
			WithHint("remove it first")
	}
	return i, err
}

// Newest returns the newest installed release for a platform.
func (h Home) Newest(platform string) (Installation, bool) {
	list, _ := h.List()
	n := slices.IndexFunc(list, func(i Installation) bool { return i.Platform == platform })
	if n < 0 {
		return Installation{}, false
	}
	return list[n], true
}

// Installed returns all installations, sorted by name, newest first.
func Installed(st *store.Store) ([]Installation, error) {
	entries, err := os.ReadDir(st.Agents())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Installation
	for _, e := range entries {
		h, bad := HomeOf(st, e.Name())
		if bad != nil {
			continue
		}
		list, listErr := h.List()
		all, err = append(all, list...), errors.Join(err, listErr)
	}
	return all, err
}

// Present returns the installation for a request with an exact version, if it exists. Then
// the registry need not be asked.
func Present(st *store.Store, r Request) (Installation, bool) {
	if r.Check() != nil || !Exact(r.Version) {
		return Installation{}, false
	}
	key, _, err := PlatformFor(r.Source, r.Target)
	if err != nil {
		return Installation{}, false
	}
	h, err := HomeOf(st, r.Name)
	if err != nil {
		return Installation{}, false
	}
	i, err := h.Find(r.Version, key)
	return i, err == nil && i.Package == r.Source.Package && slices.Equal(i.With, r.Source.With)
}
