package step

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	continuity "github.com/containerd/continuity/fs"
	"github.com/klauspost/compress/zstd"
	"github.com/moby/buildkit/solver/pb"
	"github.com/moby/patternmatcher"
	"github.com/moby/sys/user"
	copy "github.com/tonistiigi/fsutil/copy"
	"github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/build"
)

// root is a tree that operations change.
type root string

// changeFiles runs operations on files as BuildKit does.
func (at root) changeFiles(s build.Step, f *pb.FileOp) error {
	for _, a := range f.Actions {
		var err error
		switch o := a.Action.(type) {
		case *pb.FileAction_Copy:
			from, ok := s.Roots[int(a.SecondaryInput)]
			if !ok {
				return fmt.Errorf("input %d is not there", a.SecondaryInput)
			}
			err = at.copyFiles(from, o.Copy)
		case *pb.FileAction_Mkdir:
			err = at.makeDir(o.Mkdir)
		case *pb.FileAction_Mkfile:
			err = at.mkfile(o.Mkfile)
		case *pb.FileAction_Symlink:
			err = at.symlink(o.Symlink)
		case *pb.FileAction_Rm:
			err = at.remove(o.Rm)
		default:
			err = fmt.Errorf("operation %T is unknown", o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func timeOf(ts int64) *time.Time {
	if ts == -1 {
		return nil
	}
	t := time.Unix(ts/1e9, ts%1e9)
	return &t
}

// setOwner gives all files to one user. Without a user, files keep their owner.
func setOwner(u *copy.User) copy.Chowner {
	return func(old *copy.User) (*copy.User, error) {
		if u == nil {
			return old, nil
		}
		return u, nil
	}
}

// findUser finds the user of --chown in the accounts of the root. An unknown name is root,
// as in BuildKit. Without a root that could have accounts, a name is an error.
func (at root) findUser(c *pb.ChownOpt) (*copy.User, error) {
	if c == nil {
		return nil, nil
	}
	u := &copy.User{}
	switch o := c.User.GetUser().(type) {
	case *pb.UserOpt_ByID:
		u.UID, u.GID = int(o.ByID), int(o.ByID)
	case *pb.UserOpt_ByName:
		is := func(x user.User) bool { return x.Name == o.ByName.Name }
		list, err := accounts(at, "/etc/passwd", o.ByName, func(f io.Reader) ([]user.User, error) { return user.ParsePasswdFilter(f, is) })
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			u.UID, u.GID = list[0].Uid, list[0].Gid
		}
	}
	switch o := c.Group.GetUser().(type) {
	case *pb.UserOpt_ByID:
		u.GID = int(o.ByID)
	case *pb.UserOpt_ByName:
		is := func(x user.Group) bool { return x.Name == o.ByName.Name }
		list, err := accounts(at, "/etc/group", o.ByName, func(f io.Reader) ([]user.Group, error) { return user.ParseGroupFilter(f, is) })
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			u.GID = list[0].Gid
		}
	}
	return u, nil
}

// accounts reads the accounts of a name in a root; none if the file is missing. A stage that begins with
// nothing cannot have accounts.
func accounts[T any](at root, file string, o *pb.NamedUserOpt, parse func(io.Reader) ([]T, error)) ([]T, error) {
	if o.Input < 0 {
		return nil, fmt.Errorf("a stage that begins with nothing has no account %q: name an id", o.Name)
	}
	p, err := continuity.RootPath(string(at), file)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(f)
}

// placeFile returns the owner of a new file, and its path on this machine.
func (at root) placeFile(owner *pb.ChownOpt, name string) (u *copy.User, p string, err error) {
	if u, err = at.findUser(owner); err == nil {
		p, err = continuity.RootPath(string(at), filepath.Join("/", name))
	}
	return u, p, err
}

func (at root) makeDir(a *pb.FileActionMkDir) error {
	u, p, err := at.placeFile(a.Owner, a.Path)
	if err != nil {
		return err
	}
	mode := os.FileMode(a.Mode) & 0o777
	if a.MakeParents {
		_, err = copy.MkdirAll(p, mode, setOwner(u), timeOf(a.Timestamp))
		return err
	}
	if err := os.Mkdir(p, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return setOwnerTime(p, u, timeOf(a.Timestamp))
}

func setOwnerTime(p string, u *copy.User, at *time.Time) error {
	if err := copy.Chown(p, nil, setOwner(u)); err != nil {
		return err
	}
	return copy.Utimes(p, at)
}

func (at root) mkfile(a *pb.FileActionMkFile) error {
	u, p, err := at.placeFile(a.Owner, a.Path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p, a.Data, os.FileMode(a.Mode)&0o777); err != nil {
		return err
	}
	return setOwnerTime(p, u, timeOf(a.Timestamp))
}

func (at root) symlink(a *pb.FileActionSymlink) error {
	u, p, err := at.placeFile(a.Owner, a.Newpath)
	if err != nil {
		return err
	}
	if err := os.Symlink(a.Oldpath, p); err != nil {
		return err
	}
	return setOwnerTime(p, u, timeOf(a.Timestamp))
}

func (at root) remove(a *pb.FileActionRm) error {
	names := []string{a.Path}
	if a.AllowWildcard {
		var err error
		if names, err = copy.ResolveWildcards(string(at), cleaned(a.Path), false); err != nil {
			return err
		}
	}
	for _, name := range names {
		dir, base := filepath.Split(filepath.Clean(name))
		dir, err := continuity.RootPath(string(at), filepath.Join("/", dir))
		if err != nil {
			return err
		}
		p := filepath.Join(dir, base)
		if _, err := os.Lstat(p); err != nil && !a.AllowNotFound {
			return err
		}
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	return nil
}

// cleaned cleans a path but keeps a final slash, which marks a directory.
func cleaned(s string) string {
	p := filepath.Join("/", s)
	if p != "/" && (strings.HasSuffix(s, "/") || strings.HasSuffix(s, "/.")) {
		p += "/"
	}
	return p
}

func (at root) copyFiles(from string, a *pb.FileActionCopy) error {
	u, err := at.findUser(a.Owner)
	if err != nil {
		return err
	}
	if u == nil && from == build.ContextPath {
		u = &copy.User{} // the owner on the host does not matter
	}
	src, dest := cleaned(a.Src), cleaned(a.Dest)
	if !a.CreateDestPath {
		p, err := continuity.RootPath(string(at), filepath.Join("/", a.Dest))
		if err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Dir(p)); err != nil {
			return err
		}
	}
	names := []string{src}
	if a.AllowWildcard {
		if names, err = copy.ResolveWildcards(from, src, a.FollowSymlink); err != nil {
			return hidePaths(err, from)
		}
		if len(names) == 0 && !a.AllowEmptyWildcard {
			return fmt.Errorf("%s is not there", src)
		}
	}
	for _, name := range a.RequiredPaths {
		if err := required(from, name, a); err != nil {
			return err
		}
	}
	if len(names) > 0 {
		if err := at.giveWay(dest); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := at.copyOne(from, name, dest, a, u); err != nil {
			return hidePaths(err, from)
		}
	}
	return nil
}

// required reports a missing file that COPY --parents names without a wildcard. A pattern
// without a match simply copies nothing. Below the source directory no link is followed; a
// link is copied as it is, wherever it leads.
func required(from, name string, a *pb.FileActionCopy) error {
	missing := fmt.Errorf("%s is not there", name)
	src := filepath.Join("/", a.Src)
	rel, err := filepath.Rel(src, filepath.Join("/", name))
	if err != nil {
		return err
	}
	at, err := continuity.RootPath(from, src)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(at); err == nil && rel == "." { // the whole source is copied
		return nil
	}
	for part := range strings.SplitSeq(rel, "/") {
		if info, err := os.Lstat(at); err != nil || !info.IsDir() {
			return missing
		}
		at = filepath.Join(at, part)
	}
	if _, err := os.Lstat(at); err != nil {
		return missing
	}
	if out, err := excluded(rel, a.ExcludePatterns); out || err != nil {
		return errors.Join(missing, err)
	}
	return nil
}

// excluded reports whether a path is left out completely.
func excluded(name string, patterns []string) (bool, error) {
	m, err := patternmatcher.New(patterns)
	if err != nil || m.Exclusions() { // something below it may be included again
		return false, err
	}
	return m.MatchesOrParentMatches(name)
}

// hidePaths removes our own paths from an error.
func hidePaths(err error, from string) error {
	return errors.New(strings.ReplaceAll(err.Error(), strings.TrimSuffix(from, "/")+"/", "/"))
}

func (at root) copyOne(from, name, dest string, a *pb.FileActionCopy, u *copy.User) error {
	if a.AttemptUnpackDockerCompatibility {
		done, err := at.unpackArchive(from, name, dest, a, u)
		if done || err != nil {
			return err
		}
	}
	return copy.Copy(context.Background(), from, name, string(at), dest, func(c *copy.CopyInfo) {
		c.IncludePatterns, c.ExcludePatterns = a.IncludePatterns, a.ExcludePatterns
		c.Chown, c.Utime = setOwner(u), timeOf(a.Timestamp)
		if a.ModeStr != "" {
			c.ModeStr = a.ModeStr
		} else if m := int(a.Mode); m != -1 {
			c.Mode = &m
		}
		c.CopyDirContents, c.FollowLinks = a.DirCopyContents, a.FollowSymlink
		c.AlwaysReplaceExistingDestPaths = a.AlwaysReplaceExistingDestPaths
		c.XAttrErrorHandler = func(dst, _, key string, err error) error {
			log.Printf("%s: attribute %s is left out: %v", dst, key, err)
			return nil
		}
	})
}

// archiveHead is how much of a file is read to recognise an archive, in bytes. Long names
// and attributes may precede the first file.
const archiveHead = 1 << 20

// unpackArchive unpacks an archive for ADD; it returns false if the file is not an archive.
func (at root) unpackArchive(from, name, dest string, a *pb.FileActionCopy, u *copy.User) (bool, error) {
	p, err := continuity.RootPath(from, name)
	if err != nil {
		return false, err
	}
	if info, err := os.Lstat(p); err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	f, err := os.Open(p)
	if err != nil {
		return false, err
	}
	defer f.Close()
	plain, err := decompress(f)
	if _, isXZ := errors.AsType[*xzError](err); isXZ {
		return false, fmt.Errorf("ADD of %s: %w", name, err)
	}
	if err != nil {
		return false, nil
	}
	buffered := bufio.NewReaderSize(plain, archiveHead)
	head, err := buffered.Peek(archiveHead)
	if _, isXZ := errors.AsType[*xzError](err); isXZ {
		return false, fmt.Errorf("ADD of %s: %w", name, err)
	}
	if _, err := tar.NewReader(bytes.NewReader(head)).Next(); err != nil {
		return false, nil
	}
	to, err := continuity.RootPath(string(at), dest)
	if err != nil {
		return false, err
	}
	if _, err := copy.MkdirAll(to, 0o755, setOwner(u), timeOf(a.Timestamp)); err != nil {
		return false, err
	}
	if a.Owner == nil {
		u = nil // the archive names the owners
	}
	return true, mergeArchive(buffered, to, u)
}

// decompress decompresses a file of any known format, without running a program.
func decompress(f io.Reader) (io.Reader, error) {
	r := bufio.NewReader(f)
	head, _ := r.Peek(8)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b, 8}):
		return gzip.NewReader(r)
	case bytes.HasPrefix(head, []byte("BZh")):
		return bzip2.NewReader(r), nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), skippable(head):
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	case bytes.HasPrefix(head, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		plain, err := xz.NewReader(r)
		if _, short := r.Peek(minXZ - xz.HeaderLen); short != nil && err == nil {
			err = io.ErrUnexpectedEOF // the reader takes it for an empty file
		}
		if err != nil {
			return nil, &xzError{err}
		}
		return xzReader{plain}, nil
	}
	return r, nil
}

// skippable reports whether a file begins with a skippable frame of zstd, as parallel compressors write
// it.
func skippable(head []byte) bool {
	return len(head) == 8 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18})
}

// minXZ is the size of the shortest xz file, in bytes: a header, an empty index, a footer.
const minXZ = xz.HeaderLen + 8 + 12

// xzError explains why a file with an xz header cannot be unpacked: it is damaged, or uses
// something we do not support, such as a filter. It fails the build. Otherwise the build
// would continue with the archive in place of its files.
type xzError struct{ err error }

func (e *xzError) Error() string {
	return fmt.Sprintf("what xz compressed cannot be unpacked (%v): COPY it, and RUN tar", e.err)
}

func (e *xzError) Unwrap() error { return e.err }

// xzReader marks the errors of xz, to tell them from other errors.
type xzReader struct{ r *xz.Reader }

func (x xzReader) Read(p []byte) (int, error) {
	n, err := x.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &xzError{err}
	}
	return n, err
}
