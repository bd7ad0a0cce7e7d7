package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/checkpoint/manifest"
	"github.com/bothy-dev/bothy/internal/checkpoint/packfile"
	"github.com/bothy-dev/bothy/internal/store"
)

// putter makes a directory equal a tree. It leaves unchanged files alone, so that the cost of a
// restore depends on the changes since. It can run again after an interruption.
type putter struct {
	src     Source
	top     *os.File
	device  uint64 // of the directory
	packs   *packfile.Packs
	entries map[string][]*manifest.Entry // by their directory
	spared  map[string]bool              // paths that stay as they are, with their contents
	leads   map[string]bool              // the parent directories of those
	before  map[string]*manifest.Entry   // files that may be removed; nil: all
	locked  []*manifest.Entry            // directories without permissions, locked at the end
	placed  *placed                      // files that were put in their place
	skipped []string                     // paths that could not be put back
}

// placed are the files that were put in place, the time of the last one, and the effect on
// others.
type placed struct {
	files    []*manifest.Entry
	last     int64
	relinked relinked
}

// putTree does that, and records in the tree how the files are seen now; the record holds once pass
// has returned. It makes a missing directory of ours. For a directory shared with the host, it
// returns the paths that it could not put back.
func (now *placed) putTree(t *manifest.Tree, src Source, packs *packfile.Packs) (skipped []string, err error) {
	if _, err := os.Lstat(src.Dir); len(t.Entries) == 0 && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if !src.Shared {
		if err := os.MkdirAll(src.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	p := &putter{src: src, packs: packs, entries: map[string][]*manifest.Entry{}, spared: map[string]bool{}, leads: map[string]bool{}, placed: now}
	if p.top, err = src.openDir(); err != nil {
		return nil, err
	}
	defer p.top.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(p.top.Fd()), &st); err != nil {
		return nil, err
	}
	p.device = manifest.IDOf(&st).Device
	for i := range t.Entries {
		e := &t.Entries[i]
		if e.Path == "" {
			continue
		}
		in := path.Dir(e.Path)
		p.entries[in] = append(p.entries[in], e)
		if e.Left {
			p.leaveAlone(e.Path)
		}
	}
	for _, at := range src.Without {
		p.leaveAlone(at)
	}
	if src.Before != nil {
		p.before = make(map[string]*manifest.Entry, len(src.Before.Entries))
		for i := range src.Before.Entries {
			e := &src.Before.Entries[i]
			if p.before[e.Path] = e; e.Left {
				p.leaveAlone(e.Path)
			}
		}
	}
	if err := p.makeEnterable(p.top); err != nil {
		return nil, err
	}
	if err := p.fillDirectory(p.top, "."); err != nil {
		return p.skipped, err
	}
	if err := p.lockDirectories(); err != nil {
		return p.skipped, err
	}
	if len(t.Entries) > 0 {
		if err := p.noteFailure("", p.setMetadata(p.top, &t.Entries[0])); err != nil {
			return p.skipped, err
		}
	}
	return p.skipped, nil
}

// leaveAlone leaves a path as it is, and keeps its parent directories.
func (p *putter) leaveAlone(at string) {
	p.spared[at] = true
	for at = path.Dir(at); at != "." && at != "/" && !p.leads[at]; at = path.Dir(at) {
		p.leads[at] = true
	}
}

// clockTime is far longer than a step of the clock that dates files. A file system of another
// machine may have another clock.
const clockTime = 100 * time.Millisecond

// The next checkpoint copies this many files, with this many bytes, again in less time than a
// step of the clock may take.
const (
	fewFiles = 32
	fewBytes = 256 << 10
)

// areFew reports whether there were no more files than that.
func (now *placed) areFew() bool {
	bytes := int64(0)
	for _, e := range now.files {
		bytes += e.Size
	}
	return len(now.files) <= fewFiles && bytes <= fewBytes
}

// awaitClock waits until later changes get another time. If it cannot, or the wait is not worth it, it
// marks the files as possibly changed.
func (now *placed) awaitClock() error {
	within := clockTime
	if now.areFew() {
		within = 0
	}
	passed, err := passes(now.last, within)
	if err == nil && !passed {
		for _, e := range now.files {
			e.Seen.Fresh = true
		}
	}
	return err
}

// passes waits for a limited time until the clock that dates files has moved on, and reports
// whether it has.
func passes(last int64, within time.Duration) (bool, error) {
	for end := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		var clock unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &clock); err != nil || clock.Nano() > last {
			return err == nil, err
		}
		if !time.Now().Before(end) {
			return false, nil
		}
	}
}

// lockDirectories gives the directories that no user may enter their permissions. Each was noted after its
// contents.
func (p *putter) lockDirectories() error {
	for _, e := range p.locked {
		f, err := p.openPath(e.Path, asDirectory)
		if err == nil {
			err = p.setMetadata(f, e)
			f.Close()
		}
		if err := p.noteFailure(e.Path, err); err != nil {
			return err
		}
	}
	return nil
}

// notPut is an error with the path that failed.
type notPut struct {
	path string
	err  error
}

func (e *notPut) Error() string { return fmt.Sprintf("put back %q: %v", e.path, e.err) }
func (e *notPut) Unwrap() error { return e.err }

// noteFailure decides about a failure. In a directory of the host's the caller may not own every file,
// and other programs may change some at the same moment: the rest is put back all the same.
func (p *putter) noteFailure(at string, err error) error {
	if _, said := errors.AsType[*notPut](err); err == nil || said {
		return err
	}
	if errors.Is(err, errTaken) { // something that is not to be removed is in the way
		p.skipped = append(p.skipped, path.Join(p.src.Dir, at))
		return nil
	}
	fatal := store.IsFull(err) || errors.Is(err, unix.EIO) || errors.Is(err, manifest.ErrDamaged)
	if p.src.Shared && !fatal {
		p.skipped = append(p.skipped, path.Join(p.src.Dir, at))
		return nil
	}
	return &notPut{at, err}
}

// fillDirectory makes an open directory equal its entries in the tree.
func (p *putter) fillDirectory(d *os.File, at string) error {
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, e := range p.entries[at] {
		wanted[path.Base(e.Path)] = true
	}
	for _, name := range names {
		if wanted[name] {
			continue
		}
		below := path.Join(at, name)
		_, err := p.remove(d, name, below, 0)
		if err := p.noteFailure(below, err); err != nil {
			return err
		}
	}
	for _, e := range p.entries[at] {
		if p.spared[e.Path] {
			if !e.Left && !slices.Contains(p.src.Without, e.Path) {
				p.skipped = append(p.skipped, path.Join(p.src.Dir, e.Path))
			}
			continue
		}
		if err := p.noteFailure(e.Path, p.placeEntry(d, e)); err != nil {
			return err
		}
	}
	return nil
}

// placeEntry puts one entry in place.
func (p *putter) placeEntry(d *os.File, e *manifest.Entry) error {
	name := path.Base(e.Path)
	var st unix.Stat_t
	err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	there := err == nil
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR; there && isDir != e.IsDir() {
		kept, err := p.remove(d, name, e.Path, 0)
		if err == nil && kept {
			err = errTaken
		}
		if err != nil {
			return err
		}
		there, st = false, unix.Stat_t{}
	}
	if e.IsDir() {
		return p.directory(d, name, e, there)
	}
	if there && p.isThere(d, name, e, &st) {
		return nil
	}
	if there && !p.mayRemove(e.Path, &st) {
		return errTaken
	}
	return p.unlinking(d, name, &st, func() error { return p.replace(d, name, e) })
}

// guarded reports whether a program of the host may have written there since the last look, so
// that only that program has the new content.
func (p *putter) guarded() bool { return p.before != nil && p.src.Shared }

// mayRemove reports whether a path still has the file that was there before.
func (p *putter) mayRemove(at string, st *unix.Stat_t) bool {
	if !p.guarded() {
		return true
	}
	e := p.before[at]
	if e == nil {
		return false
	}
	was := e.Seen
	was.Fresh = false
	return was == p.placed.relinked.stateBefore(st) && e.Modified == st.Mtim.Nano()
}

// isThere reports whether a name is already as it should be.
func (p *putter) isThere(d *os.File, name string, e *manifest.Entry, st *unix.Stat_t) bool {
	switch {
	case e.Mode != st.Mode:
		return false
	case e.Same != "":
		f, err := p.openFirstName(e.Same)
		if err != nil {
			return false
		}
		defer f.Close()
		var one unix.Stat_t
		return unix.Fstat(int(f.Fd()), &one) == nil && manifest.IDOf(&one) == manifest.IDOf(st)
	case e.IsFile():
		return e.IsUnchanged(st)
	case e.Kind() == unix.S_IFLNK:
		target, err := readlink(d, name)
		return err == nil && target == e.Target
	case e.Kind() == unix.S_IFCHR:
		return st.Rdev == 0
	}
	return true // a pipe
}

// directory creates a directory if needed, and fills it.
func (p *putter) directory(d *os.File, name string, e *manifest.Entry, there bool) error {
	if !there {
		if err := unix.Mkdirat(int(d.Fd()), name, 0o700); err != nil {
			return err
		}
	}
	f, err := openAnyway(d, name, asDirectory)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if manifest.IDOf(&st).Device != p.device {
		return nil // something is mounted there, which is not ours to change
	}
	if err := p.noteFailure(e.Path, p.makeEnterable(f)); err != nil {
		return err
	}
	if err := p.fillDirectory(f, e.Path); err != nil {
		return err
	}
	if e.Mode&0o100 == 0 { // others may be names of files in it
		p.locked = append(p.locked, e)
		return nil
	}
	return p.setMetadata(f, e)
}

// makeEnterable gives the owner of a directory the permission to work in it.
func (p *putter) makeEnterable(d *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil || st.Mode&0o700 == 0o700 {
		return err
	}
	return unix.Fchmod(int(d.Fd()), st.Mode&0o7777|0o700)
}
