package plan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	continuity "github.com/containerd/continuity/fs"
	"github.com/moby/buildkit/solver/pb"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/tonistiigi/fsutil"
	copy "github.com/tonistiigi/fsutil/copy"
	"github.com/tonistiigi/fsutil/types"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// snapshot is a copy of the context files that the build uses. Other processes cannot
// change it while the build runs.
type snapshot struct {
	dir   string
	left  int64                // remaining size of its files, in bytes, holes included
	links map[[2]uint64]string // the first copy of files with several hard links
}

// maxContext bounds the size of the context files that a build uses, in bytes. It is a
// variable for tests.
var maxContext = int64(64 << 30)

// anotherName adds a hard link. It is a variable for tests.
var anotherName = os.Link

// sharedName adds a hard link to an existing file. It returns false if the file system has
// no hard links, or allows no more of them.
func sharedName(first, to string) (bool, error) {
	err := anotherName(first, to)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EMLINK) {
		return false, nil
	}
	return true, err
}

func openContext(o build.Order) (*os.Root, error) {
	root, err := hostpath.OpenRealRoot(o.Context)
	if err != nil || o.Within == "" {
		return root, err
	}
	defer root.Close()
	return root.OpenRoot(o.Within)
}

// takeSnapshot copies the files that the steps name, except those that .dockerignore leaves out.
func takeSnapshot(ctx context.Context, o build.Order, attrs map[string]string) (*snapshot, error) {
	root, err := openContext(o)
	if err != nil {
		return nil, spec.Errorf(spec.ErrNotFound, "the build's directory: %w", err)
	}
	defer root.Close()
	opt, err := filters(o, attrs)
	if err != nil {
		return nil, err
	}
	files := inContext{root}
	filtered, err := fsutil.NewFilterFS(files, opt)
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, ".dockerignore: %w", err)
	}
	s := &snapshot{o.Snapshot, maxContext, map[[2]uint64]string{}}
	var dirs []metadata
	var failed error // the filter would skip a missing file and continue
	err = filtered.Walk(ctx, "", func(name string, e fs.DirEntry, err error) error {
		if failed = err; err == nil {
			failed = s.copyEntry(files, name, e, &dirs)
		}
		if failed != nil {
			return fs.SkipAll
		}
		return nil
	})
	if failed != nil {
		err = failed
	}
	for i := len(dirs) - 1; err == nil && i >= 0; i-- { // their contents are complete now
		err = dirs[i].settle()
	}
	return s, err
}

func filters(o build.Order, attrs map[string]string) (*fsutil.FilterOpt, error) {
	opt := &fsutil.FilterOpt{}
	for _, a := range []struct {
		key string
		to  *[]string
	}{{pb.AttrFollowPaths, &opt.FollowPaths}, {pb.AttrIncludePatterns, &opt.IncludePatterns}, {pb.AttrExcludePatterns, &opt.ExcludePatterns}} {
		if text := attrs[a.key]; text != "" {
			if err := json.Unmarshal([]byte(text), a.to); err != nil {
				return nil, fmt.Errorf("%s: %w", a.key, err)
			}
		}
	}
	ignored, err := ignorefile.ReadAll(strings.NewReader(o.Ignore))
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, ".dockerignore: %w", err)
	}
	opt.ExcludePatterns = append(opt.ExcludePatterns, ignored...)
	return opt, nil
}

// metadata is the mode and time of a file or directory, applied once its contents are complete.
type metadata struct {
	path string
	info fs.FileInfo
}

func (d metadata) settle() error {
	mode := d.info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	if err := os.Chmod(d.path, mode); err != nil {
		return err
	}
	return os.Chtimes(d.path, d.info.ModTime(), d.info.ModTime())
}

// copyEntry copies one entry. It does not copy pipes and devices; a socket becomes an empty file,
// as in BuildKit.
func (s *snapshot) copyEntry(from inContext, name string, e fs.DirEntry, dirs *[]metadata) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	to := filepath.Join(s.dir, name)
	switch {
	case info.IsDir():
		*dirs = append(*dirs, metadata{to, info})
		return os.Mkdir(to, 0o700)
	case info.Mode()&fs.ModeSymlink != 0:
		st, ok := info.Sys().(*types.Stat)
		if !ok {
			return fmt.Errorf("%s: the target of the link is unknown", name)
		}
		return makeLink(st.Linkname, to, info.ModTime())
	case info.Mode().IsRegular():
		return s.copyFile(from, name, to, info)
	case info.Mode()&fs.ModeSocket != 0:
		return makeEmpty(to, info)
	}
	return nil
}

// makeLink makes a link with its original time, because that becomes part of the image.
func makeLink(target, to string, at time.Time) error {
	if err := os.Symlink(target, to); err != nil {
		return err
	}
	tv := unix.NsecToTimeval(at.UnixNano())
	return unix.Lutimes(to, []unix.Timeval{tv, tv})
}

func makeEmpty(to string, info fs.FileInfo) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), metadata{to, info}.settle())
}

// copyFile copies a file. A file that was removed meanwhile is skipped.
func (s *snapshot) copyFile(from inContext, name, to string, info fs.FileInfo) error {
	in, err := from.openFile(name)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(in.Fd()), &st); err != nil {
		return err
	}
	if id := [2]uint64{st.Dev, st.Ino}; st.Nlink > 1 {
		if first, ok := s.links[id]; ok {
			if done, err := sharedName(first, to); done {
				return err
			}
		}
		s.links[id] = to // link the next ones to this copy: the first may have reached its limit of names
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(s.copyContent(out, in), out.Close()); err != nil {
		return err
	}
	return metadata{to, info}.settle()
}

// copyContent copies a file, up to the size that it had at the beginning. Holes stay holes: the
// agent in the sandbox can make large ones at no cost.
func (s *snapshot) copyContent(out, in *os.File) error {
	info, err := in.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if s.left -= size; s.left < 0 {
		return spec.Errorf(spec.ErrUsage, "with %s the build copies more than %d GiB of its directory", in.Name(), maxContext>>30).
			WithHint("leave out files that it does not need: .dockerignore")
	}
	for at := int64(0); at < size; {
		from, to, err := store.NextData(in, at, size)
		if errors.Is(err, unix.ENXIO) { // the file became shorter
			break
		}
		if err != nil {
			return err
		}
		if from < to {
			if _, err = out.Seek(from, io.SeekStart); err == nil {
				_, err = in.Seek(from, io.SeekStart)
			}
			if err == nil {
				_, err = io.CopyN(out, in, to-from)
			}
			if err != nil && err != io.EOF { // the file became shorter
				return err
			}
		}
		at = to
	}
	return out.Truncate(size)
}

// hashCopy returns the digest of the files that a COPY takes from the snapshot. It ignores exclude
// patterns: excluded files count, too.
func (s *snapshot) hashCopy(c *pb.FileActionCopy) (string, error) {
	names := []string{c.Src}
	if c.AllowWildcard {
		var err error
		if names, err = copy.ResolveWildcards(s.dir, filepath.Join("/", c.Src), c.FollowSymlink); err != nil {
			return "", err
		}
	}
	var all strings.Builder
	for _, name := range names {
		sum, err := s.hashTree(name, c.FollowSymlink)
		if err != nil {
			return "", err
		}
		all.WriteString(name + ":" + sum + ";")
	}
	return all.String(), nil
}

// hashTree returns the digest of a file or a tree: names, kinds, permissions and contents. A missing file
// has a digest, too; the step will report it.
func (s *snapshot) hashTree(name string, follow bool) (string, error) {
	at := filepath.Join(s.dir, filepath.Join("/", name))
	if follow {
		var err error
		if at, err = continuity.RootPath(s.dir, name); err != nil {
			return "", err
		}
	}
	sum := sha256.New()
	err := filepath.WalkDir(at, func(p string, e fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(at, p)
		target := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if target, err = os.Readlink(p); err != nil {
				return err
			}
		}
		size := info.Size()
		if !info.Mode().IsRegular() {
			size = 0
		}
		fmt.Fprintf(sum, "%q %v %d %q\n", rel, info.Mode(), size, target)
		if !info.Mode().IsRegular() {
			return nil
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(sum, f)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}
