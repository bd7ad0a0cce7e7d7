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

// inContext reads a context, as fsutil's filters want it read. Somebody inside a sandbox
// may be changing it: whatever path it is asked for, nothing outside is opened, listed
// or looked at.
type inContext struct{ root *os.Root }

// Open is what the filters ask for.
func (c inContext) Open(name string) (io.ReadCloser, error) { return c.open(name) }

// open opens a regular file.
func (c inContext) open(name string) (*os.File, error) {
	f, err := c.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, fmt.Errorf("%s is no regular file any more", name)
	}
	return f, nil
}

// gone tells whether an error says that something is not there, or not there any more.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// Walk calls a function with what is at a path and below it, but the root itself, like
// [fs.WalkDir]. What goes away meanwhile is left out, and nothing beside it.
func (c inContext) Walk(ctx context.Context, target string, visit fs.WalkDirFunc) error {
	name := path.Clean("/" + target)[1:]
	if name == "" {
		return over(c.list(ctx, ".", nil, visit))
	}
	return over(c.walk(ctx, name, visit))
}

// over is the end of a walk that is to end.
func over(err error) error {
	if errors.Is(err, fs.SkipDir) || errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

func (c inContext) walk(ctx context.Context, name string, visit fs.WalkDirFunc) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	info, err := c.root.Lstat(name)
	var e *fsutil.DirEntryInfo
	if err == nil {
		e, err = c.entry(name, info)
	}
	if gone(err) {
		return nil
	}
	if err != nil {
		return visit(name, nil, err)
	}
	err = visit(name, e, nil)
	if err == nil && info.IsDir() {
		err = c.list(ctx, name, info, func(at string, d fs.DirEntry, err error) error {
			if at == name { // what of it is not read
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

// entry is what fsutil knows of a file.
func (c inContext) entry(name string, info fs.FileInfo) (*fsutil.DirEntryInfo, error) {
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

// list walks through a directory; info is that of before, nil for the root.
func (c inContext) list(ctx context.Context, dir string, info fs.FileInfo, visit fs.WalkDirFunc) error {
	names, err := c.names(dir, info)
	if err != nil && !gone(err) {
		if err = visit(dir, nil, err); err != nil {
			return err
		}
	}
	for _, name := range names {
		err := c.walk(ctx, path.Join(dir, name), visit)
		if errors.Is(err, fs.SkipDir) { // of a file: the rest of the directory
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// names reads a directory, which must be the one it was.
func (c inContext) names(dir string, was fs.FileInfo) ([]string, error) {
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
