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

// Installation is a program that is there, as its agent.json says.
type Installation struct {
	Document  int       `json:"version"` // the format of this document
	Name      string    `json:"name"`
	Package   string    `json:"package"`   // whose release it is
	Release   string    `json:"release"`   // its version
	Platform  string    `json:"platform"`  // the key of Source.Platforms
	From      string    `json:"from"`      // what was unpacked, PACKAGE@VERSION
	Integrity string    `json:"integrity"` // of its tarball, checked
	Binary    string    `json:"binary"`    // beneath the package's directory
	Installed time.Time `json:"installed"`

	// Dir is where it lies. It is shared, and written to by nobody.
	Dir string `json:"dir,omitempty"`
}

// documentVersion is that of agent.json.
const documentVersion = 1

// ID tells an installation from others of its name: the release, and what else
// than usual it is made for.
func (i Installation) ID() string { return dirName(i.Release, i.Platform) }

// Root is the package's directory, to be shown to sandboxes.
func (i Installation) Root() string { return filepath.Join(i.Dir, packageName) }

// Path is the program on the host.
func (i Installation) Path() string { return filepath.Join(i.Root(), i.Binary) }

// Size is what its files take, in bytes.
func (i Installation) Size() (int64, error) { return store.TreeSize(i.Dir) }

// What lies in the directory of a name. What begins with a dot is no
// installation.
const (
	lockName     = ".lock"
	partPrefix   = ".part-" // a download that is not complete
	newPrefix    = ".new-"  // being unpacked
	gonePrefix   = ".gone-" // being removed
	manifestName = "agent.json"
	packageName  = "package"
)

// Home is the directory of all versions of one program.
type Home struct{ dir, name string }

// HomeOf gives the directory of a name, which need not exist.
func HomeOf(st *store.Store, name string) (Home, error) {
	if CheckName(name) != nil {
		return Home{}, spec.Errorf(spec.ErrNotFound, "there is no agent %q", name)
	}
	return Home{filepath.Join(st.Agents(), name), name}, nil
}

// Make makes the directory.
func (h Home) Make() error { return os.MkdirAll(h.dir, 0o700) }

// Lock is the path of the lock whoever changes the directory holds.
func (h Home) Lock() string { return filepath.Join(h.dir, lockName) }

// Part is where a download is kept until it is complete. A digest of what it is
// to become is its name: no other download continues it.
func (h Home) Part(digest []byte) string {
	return filepath.Join(h.dir, partPrefix+hex.EncodeToString(digest[:min(len(digest), 16)]))
}

// New is a directory to unpack into. The caller holds the lock. What is unpacked is for
// every user inside, who sees nothing of what it lies in; that keeps others of the host out.
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

// Put makes what was unpacked into dir an installation. It is durable already.
// The manifest comes last: what has none is nothing.
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

// Sweep removes what crashes left behind, but for the part to be continued. The
// caller holds the lock, so that nobody is at work.
func (h Home) Sweep(keep string) error {
	left, err := h.Leftovers()
	for _, p := range left {
		if p != keep {
			err = errors.Join(err, os.RemoveAll(p))
		}
	}
	return err
}

// Leftovers are the paths of what is being made or removed, by somebody at work or
// by one that crashed.
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

// Get reads one installation. One that is not whole is fs.ErrNotExist.
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

// List gives the installations, the newest release first. Those that cannot be
// read are left out.
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

// Find gives the installation of a release for a platform. None is
// fs.ErrNotExist.
func (h Home) Find(release, platform string) (Installation, error) {
	i, err := h.Get(dirName(release, platform))
	if err == nil && i.Platform != platform {
		return i, spec.Errorf(spec.ErrConflict, "%s %s is installed for %s, not for %s", h.name, release, i.Platform, platform).
			WithHint("remove it first")
	}
	return i, err
}

// Newest gives the newest release that is installed for a platform.
func (h Home) Newest(platform string) (Installation, bool) {
	list, _ := h.List()
	n := slices.IndexFunc(list, func(i Installation) bool { return i.Platform == platform })
	if n < 0 {
		return Installation{}, false
	}
	return list[n], true
}

// Installed gives what is installed, by name, newest first.
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

// Present gives what a request for an exact version asks for, if it is there:
// nobody needs to be asked then.
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
	return i, err == nil && i.Package == r.Source.Package
}
