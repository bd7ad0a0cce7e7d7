// Package hostroot builds the root file system that a sandbox starts from.
//
// The package has one template so far: host, the programs of this machine, read-only. It is an
// allow-list. Directories of programs (/usr, /opt, …) are bound into a tree of our own. /etc is
// not bound but copied, file by file, and only files that every user of the machine may read and
// that do not look like a secret. /home, /root, /run, /tmp and everything else of the host are
// not hidden: they are missing.
//
// A keeper calls Prepare, which finds or makes the copy of /etc, and then Assemble, which builds the
// tree. Both run inside the keeper's own user and mount namespace, whose mounts must be private already.
// Nothing needs to be undone: the tree is gone with the namespace.
//
// The sandbox can read every file below the bound directories that the kernel lets the caller
// read. For an ordinary user those are the files that every user may read, and the caller's own.
// See Host.Gaps for root.
//
// # On disk
//
// The cache directory belongs to the caller alone and holds
//
//	etc-<fingerprint>/  a copy of /etc; whoever uses it holds a shared flock on it
//	tmp-<random>/       a copy being made or removed; abandoned unless locked
//
// A copy is made in a tmp- directory and renamed when complete, so a keeper may be killed at any moment.
// The fingerprint covers the state of /etc (names, modes, sizes, times, inodes), the rules of this
// package and the boot. So no half-written copy is found after a crash of the whole machine.
package hostroot

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/trust"
)

// User is the user that a sandbox works for, as the sandbox knows them.
type User struct {
	Name  string
	UID   int
	GID   int
	Home  string // absolute; a directory of the sandbox's own is mounted there
	Shell string // absolute; empty means the best shell available
}

// Host is the host template, ready to be assembled. It is not safe for concurrent use.
type Host struct {
	source
	user   User
	cache  string
	name   string // of the snapshot in the cache
	lock   int    // holds the snapshot; a bare descriptor, so that no finalizer releases it
	mounts []mount
	asRoot bool
	// disowned is Options.Disowned.
	disowned string
	trust    *trust.Files
	gaps     []string
	java     bool // see Java
}

// source is the root of the host's files. The zero value is the host itself; tests put a tree of
// their own under root.
type source struct {
	root string
}

func (s source) path(p string) string { return s.root + p }

// Prepare finds the copy of the host's /etc in cacheDir, or makes a new one if /etc changed. It
// may be called by any number of processes at once. The copy stays in place until the Host is
// closed or the process ends.
func Prepare(cacheDir string, u User) (*Host, error) {
	return source{}.prepare(cacheDir, u)
}

func (s source) prepare(cacheDir string, u User) (*Host, error) {
	if err := u.checkUser(); err != nil {
		return nil, err
	}
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	h := &Host{source: s, user: u, cache: cacheDir, mounts: mounts, asRoot: mappedToRoot()}
	h.name, h.lock, err = s.snapshot(cacheDir, mounts)
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w", s.path("/etc"), err)
	}
	return h, nil
}

// Gaps describes in sentences where this template shows more, or less, than it should. It is
// complete once Assemble was called.
func (h *Host) Gaps() []string {
	gaps := slices.Clone(h.gaps)
	if bare := h.readableByRoot(); h.asRoot && len(bare) > 0 {
		gaps = append(gaps, "files below "+strings.Join(bare, ", ")+" that only root may read can be read inside, because root started the sandbox")
	}
	return gaps
}

// readableByRoot lists the bound directories in which the host's root still owns its files (see
// Disown).
func (h *Host) readableByRoot() []string {
	var bare []string
	for _, p := range programs {
		if h.kindOf(p.path) == isDir && !idMapped(h.mounts, h.sourceOf(p.path)) {
			bare = append(bare, p.path)
		}
	}
	return bare
}

// sourceOf returns the directory to bind for a directory of programs: Disown's copy, if it exists.
func (h *Host) sourceOf(path string) string {
	if at := h.disowned + path; h.disowned != "" && idMapped(h.mounts, at) {
		return at
	}
	return h.path(path)
}

// mappedToRoot reports whether root owns this process's files, seen from the surrounding
// namespace.
func mappedToRoot() bool {
	outside, _, err := uidMap()
	return err == nil && outside == 0
}

// ownNamespace reports whether the process is in a user namespace that maps only the caller.
func ownNamespace() bool {
	_, size, err := uidMap()
	return err == nil && size == 1
}

// uidMap reads the first entry of the map of this user namespace.
func uidMap() (outside, size uint32, err error) {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return 0, 0, err
	}
	var inside uint32
	_, err = fmt.Sscan(string(b), &inside, &outside, &size)
	return outside, size, err
}
