package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/tonistiigi/fsutil"
	"github.com/tonistiigi/fsutil/types"
	"golang.org/x/sys/unix"
)

// inContext reads a context through the interface of fsutil's filters. An agent in a
// sandbox may change the files meanwhile. Whatever path it is asked for, it does not open,
// list or stat anything outside.
type inContext struct{ root *os.Root }

// Open opens a file for the filters.
func (c inContext) Open(name string) (io.ReadCloser, error) { return c.openFile(name) }

func (c inContext) openFile(name string) (*os.File, error) {
	f, err := c.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, fmt.Errorf("%s is not a regular file any more", name)
	}
	return f, nil
}

// isGone reports whether an error says that a file is missing, or was removed meanwhile.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// Walk calls a function for a path and everything below it, but not for the root itself,
// like [fs.WalkDir]. It skips entries that are removed meanwhile, and only those.
func (c inContext) Walk(ctx context.Context, target string, visit fs.WalkDirFunc) error {
	name := path.Clean("/" + target)[1:]
	if name == "" {
		return ignoreSkip(c.walkDir(ctx, ".", nil, visit))
	}
	return ignoreSkip(c.walkEntry(ctx, name, visit))
}

// ignoreSkip drops the errors that only end a walk.
func ignoreSkip(err error) error {
	if errors.Is(err, fs.SkipDir) || errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

func (c inContext) walkEntry(ctx context.Context, name string, visit fs.WalkDirFunc) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	info, err := c.root.Lstat(name)
	var e *fsutil.DirEntryInfo
	if err == nil {
		e, err = c.newEntry(name, info)
	}
	if isGone(err) {
		return nil
	}
	if err != nil {
		return visit(name, nil, err)
	}
	err = visit(name, e, nil)
	if err == nil && info.IsDir() {
		err = c.walkDir(ctx, name, info, func(at string, d fs.DirEntry, err error) error {
			if at == name { // the directory itself, when reading it fails
				d = e
			}
			return visit(at, d, err)
		})
	}
	if errors.Is(err, fs.SkipDir) && info.IsDir() {
		return nil
	}
	return err
}

func (c inContext) newEntry(name string, info fs.FileInfo) (*fsutil.DirEntryInfo, error) {
	st := &types.Stat{Path: name, Mode: uint32(info.Mode()), ModTime: info.ModTime().UnixNano()}
	var err error
	if !info.IsDir() {
		st.Size = info.Size()
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		st.Linkname, err = c.root.Readlink(name)
	}
	return &fsutil.DirEntryInfo{Stat: st}, err
}

// walkDir walks through a directory. info is the earlier Lstat result, nil for the root.
func (c inContext) walkDir(ctx context.Context, dir string, info fs.FileInfo, visit fs.WalkDirFunc) error {
	names, err := c.readNames(dir, info)
	if err != nil && !isGone(err) {
		if err = visit(dir, nil, err); err != nil {
			return err
		}
	}
	for _, name := range names {
		err := c.walkEntry(ctx, path.Join(dir, name), visit)
		if errors.Is(err, fs.SkipDir) { // for a file: skip the rest of the directory
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readNames reads a directory. It fails if the path now names another directory than before.
func (c inContext) readNames(dir string, was fs.FileInfo) ([]string, error) {
	f, err := c.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if was != nil && !os.SameFile(was, info) {
		return nil, fmt.Errorf("%s became another directory while it was read", dir)
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}
