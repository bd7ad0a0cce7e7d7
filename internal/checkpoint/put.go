package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
)

// putter has a directory hold what a tree says. What is as it was is left alone, so
// that going back costs what was done since. It can be done again when it was
// interrupted.
type putter struct {
	src     Source
	top     *os.File
	device  uint64 // of the directory
	packs   *Packs
	entries map[string][]*Entry // by the directory that they lie in
	spared  map[string]bool     // what stays as it is, with all that lies in it
	leads   map[string]bool     // directories with such in them
	before  map[string]*Entry   // what may be removed; nil: all
	locked  []*Entry            // directories that nobody may look into when all is done
	placed  *placed             // files that were put in their place
	skipped []string            // what could not be put back
}

// placed are files that were put in their place, and when the last of them was; and what
// that did to others.
type placed struct {
	files    []*Entry
	last     int64
	relinked relinked
}

// put does that, and notes in the tree what the files are seen as now, which holds once
// they have passed. A directory of ours is made if there is none; of one that is shared
// with the host, what could not be put back is given.
func (now *placed) put(t *Tree, src Source, packs *Packs) (skipped []string, err error) {
	if _, err := os.Lstat(src.Dir); len(t.Entries) == 0 && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if !src.Shared {
		if err := os.MkdirAll(src.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	p := &putter{src: src, packs: packs, entries: map[string][]*Entry{}, spared: map[string]bool{}, leads: map[string]bool{}, placed: now}
	if p.top, err = src.open(); err != nil {
		return nil, err
	}
	defer p.top.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(p.top.Fd()), &st); err != nil {
		return nil, err
	}
	p.device = idOf(&st).device
	for i := range t.Entries {
		e := &t.Entries[i]
		if e.Path == "" {
			continue
		}
		in := path.Dir(e.Path)
		p.entries[in] = append(p.entries[in], e)
		if e.Left {
			p.spare(e.Path)
		}
	}
	for _, at := range src.Without {
		p.spare(at)
	}
	if src.Before != nil {
		p.before = make(map[string]*Entry, len(src.Before.Entries))
		for i := range src.Before.Entries {
			e := &src.Before.Entries[i]
			if p.before[e.Path] = e; e.Left {
				p.spare(e.Path)
			}
		}
	}
	if err := p.enter(p.top); err != nil {
		return nil, err
	}
	if err := p.fill(p.top, "."); err != nil {
		return p.skipped, err
	}
	if err := p.lock(); err != nil {
		return p.skipped, err
	}
	if len(t.Entries) > 0 {
		if err := p.may("", p.dress(p.top, &t.Entries[0])); err != nil {
			return p.skipped, err
		}
	}
	return p.skipped, nil
}

// spare has a path stay as it is, and the directories that it lies in stay there.
func (p *putter) spare(at string) {
	p.spared[at] = true
	for at = path.Dir(at); at != "." && at != "/" && !p.leads[at]; at = path.Dir(at) {
		p.leads[at] = true
	}
}

// isBelow refuses what is no plain relative path.
func isBelow(p string) bool {
	return p != "" && p != "." && p[0] != '/' && p == path.Clean(p) && p != ".." && !strings.HasPrefix(p, "../")
}

// clockTime is far more than the clock that files are dated by takes for a step. On a
// file system of another machine it may be another clock.
const clockTime = 100 * time.Millisecond

// So many files, with so many bytes, the next checkpoint copies once more in less time than
// the clock may take for a step.
const (
	fewFiles = 32
	fewBytes = 256 << 10
)

// few tells whether that is all.
func (now *placed) few() bool {
	bytes := int64(0)
	for _, e := range now.files {
		bytes += e.Size
	}
	return len(now.files) <= fewFiles && bytes <= fewBytes
}

// pass waits until whatever is changed from now on has another time. Where that cannot be
// had, or is not worth it, nobody can tell.
func (now *placed) pass() error {
	within := clockTime
	if now.few() {
		within = 0
	}
	passed, err := passes(now.last, within)
	if err == nil && !passed {
		for _, e := range now.files {
			e.seen.fresh = true
		}
	}
	return err
}

// passes waits for some time until the clock that files are dated by has gone on, and tells
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

// lock gives the directories their permissions that nobody may look into afterwards: each
// was noted after those that lie in it.
func (p *putter) lock() error {
	for _, e := range p.locked {
		f, err := p.reach(e.Path, asDirectory)
		if err == nil {
			err = p.dress(f, e)
			f.Close()
		}
		if err := p.may(e.Path, err); err != nil {
			return err
		}
	}
	return nil
}

// notPut says of which path something failed.
type notPut struct {
	path string
	err  error
}

func (e *notPut) Error() string { return fmt.Sprintf("put back %q: %v", e.path, e.err) }
func (e *notPut) Unwrap() error { return e.err }

// may tells what a failure means. In a directory of the host's some things are not the
// caller's to change, or are changed by others in the same moment: the rest is put back
// all the same.
func (p *putter) may(at string, err error) error {
	if _, said := errors.AsType[*notPut](err); err == nil || said {
		return err
	}
	if errors.Is(err, errTaken) { // something that is not to be removed is in the way
		p.skipped = append(p.skipped, path.Join(p.src.Dir, at))
		return nil
	}
	fatal := store.IsFull(err) || errors.Is(err, unix.EIO) || errors.Is(err, errDamaged)
	if p.src.Shared && !fatal {
		p.skipped = append(p.skipped, path.Join(p.src.Dir, at))
		return nil
	}
	return &notPut{at, err}
}

// fill has an open directory hold what it shall.
func (p *putter) fill(d *os.File, at string) error {
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
		if err := p.may(below, err); err != nil {
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
		if err := p.may(e.Path, p.place(d, e)); err != nil {
			return err
		}
	}
	return nil
}

// place puts one entry in its place.
func (p *putter) place(d *os.File, e *Entry) error {
	name := path.Base(e.Path)
	var st unix.Stat_t
	err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	there := err == nil
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR; there && isDir != e.isDir() {
		kept, err := p.remove(d, name, e.Path, 0)
		if err == nil && kept {
			err = errTaken
		}
		if err != nil {
			return err
		}
		there, st = false, unix.Stat_t{}
	}
	if e.isDir() {
		return p.directory(d, name, e, there)
	}
	if there && p.isThere(d, name, e, &st) {
		return nil
	}
	if there && !p.mayGo(e.Path, &st) {
		return errTaken
	}
	return p.unlinking(d, name, &st, func() error { return p.replace(d, name, e) })
}

// guarded tells whether somebody of the host may have written there since it was looked
// at, so that nothing else has it.
func (p *putter) guarded() bool { return p.before != nil && p.src.Shared }

// mayGo tells whether what lies at a path is what was there before.
func (p *putter) mayGo(at string, st *unix.Stat_t) bool {
	if !p.guarded() {
		return true
	}
	e := p.before[at]
	if e == nil {
		return false
	}
	was := e.seen
	was.fresh = false
	return was == p.placed.relinked.found(st) && e.Modified == st.Mtim.Nano()
}

// isThere tells whether a name is what it shall be already.
func (p *putter) isThere(d *os.File, name string, e *Entry, st *unix.Stat_t) bool {
	switch {
	case e.Mode != st.Mode:
		return false
	case e.Same != "":
		f, err := p.first(e.Same)
		if err != nil {
			return false
		}
		defer f.Close()
		var one unix.Stat_t
		return unix.Fstat(int(f.Fd()), &one) == nil && idOf(&one) == idOf(st)
	case e.isFile():
		return e.unchanged(st)
	case e.kind() == unix.S_IFLNK:
		target, err := readlink(d, name)
		return err == nil && target == e.Target
	case e.kind() == unix.S_IFCHR:
		return st.Rdev == 0
	}
	return true // a pipe
}

// directory has a directory, and all that it shall hold.
func (p *putter) directory(d *os.File, name string, e *Entry, there bool) error {
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
	if idOf(&st).device != p.device {
		return nil // something is mounted there, which is not ours to change
	}
	if err := p.may(e.Path, p.enter(f)); err != nil {
		return err
	}
	if err := p.fill(f, e.Path); err != nil {
		return err
	}
	if e.Mode&0o100 == 0 { // others may be names of files in it
		p.locked = append(p.locked, e)
		return nil
	}
	return p.dress(f, e)
}

// enter gives the owner of a directory the permission to work in it.
func (p *putter) enter(d *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil || st.Mode&0o700 == 0o700 {
		return err
	}
	return unix.Fchmod(int(d.Fd()), st.Mode&0o7777|0o700)
}
