package runner

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/archive"
	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// maxOriginal is how many bytes of each protected path are kept. A larger path is hashed, but cannot be
// put back.
const maxOriginal = 64 << 20

// copyTime is how long it may take to put a path back.
const copyTime = 5 * time.Minute

// maxPutBack is how many names of restored files are reported.
const maxPutBack = 10

// original hashes a protected path. The first time, it also keeps the contents, under their hash, unless
// they are too large or the loop has no directory for them.
func (s *Loop) original(ctx context.Context, in *copies, rel string, first bool) (sum string, err error) {
	if !first || s.originals == "" {
		return s.hashTree(ctx, in, rel, nil)
	}
	kept := &bounded{most: maxOriginal}
	sum, err = s.hashTree(ctx, in, rel, kept)
	if err != nil || sum == absent || kept.full {
		return sum, err
	}
	if err := os.Mkdir(s.originals, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := store.WriteFile(filepath.Join(s.originals, sum), kept.Bytes()); err != nil {
		return "", fmt.Errorf("keep the protected files: %w", err)
	}
	return sum, store.SyncDir(s.originals)
}

// bounded keeps the written bytes, or none if they are too many.
type bounded struct {
	bytes.Buffer
	most int
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.full = b.full || b.Len()+len(p) > b.most; b.full {
		b.Reset()
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// PutBack restores the protected paths. Our own program writes them inside.
func (s *Loop) PutBack(ctx context.Context, seat loop.Seat, baseline map[string]string) (g loop.Guard, err error) {
	at, err := s.placeOf(seat)
	if err != nil {
		return g, err
	}
	if err := s.emptySandbox(ctx, at.Sandbox); err != nil {
		return g, err
	}
	var names []string
	for _, rel := range s.plan.Protect {
		list, err := s.putBack(ctx, at.Sandbox, rel, baseline[rel])
		if err != nil && ctx.Err() == nil && !errors.Is(err, spec.ErrSandbox) {
			g.Left = append(g.Left, rel+": "+err.Error())
			err = nil
		}
		if err != nil {
			return g, err
		}
		names = append(names, list...)
	}
	g.Paths = names[:min(len(names), maxPutBack)]
	g.More = len(names) - len(g.Paths)
	return g, s.engine.Stop(context.WithoutCancel(ctx), at.Sandbox, Grace)
}

// putBack restores one path, and returns the names of the files that differed.
func (s *Loop) putBack(ctx context.Context, sb *spec.Sandbox, rel, sum string) (names []string, err error) {
	is := map[string]item{}
	began, now, rerr := s.hashInside(ctx, sb, rel, is)
	switch {
	case !began || ctx.Err() != nil:
		return nil, errors.Join(rerr, ctx.Err())
	case rerr != nil: // for example a link on the way: restore all of it
		now, is = "", nil
	}
	if now == sum {
		return nil, nil
	}
	kept, was, err := s.readOriginal(sum)
	if err != nil {
		return nil, err
	}
	p := planOf(path.Base(filepath.ToSlash(rel)), was, is)
	if err := s.sendRepair(ctx, sb, rel, kept, p); err != nil {
		return nil, err
	}
	if _, now, err := s.hashInside(ctx, sb, rel, nil); err != nil {
		return nil, err
	} else if now != sum {
		return nil, errors.New("it was put back, and still differs")
	}
	above := path.Dir(filepath.ToSlash(rel))
	for _, name := range p.names {
		names = append(names, path.Join(above, name))
	}
	return names, nil
}

// hashInside hashes a path inside, as root, and notes its entries, unless entries is nil. Began is false
// if the program could not start.
func (s *Loop) hashInside(ctx context.Context, sb *spec.Sandbox, rel string, entries map[string]item) (began bool, sum string, err error) {
	var l listing
	began, err = readTree(ctx, s.sessionIn(sb), sb, rel, "root", func(r io.Reader) (err error) {
		l, err = listArchive(r, entries)
		return err
	})
	if began && errors.Is(err, spec.ErrNotFound) {
		return began, absent, nil
	}
	return began, l.sum, err
}

// readOriginal reads the kept contents, and verifies their hash.
func (s *Loop) readOriginal(sum string) (archived []byte, was map[string]item, err error) {
	was = map[string]item{}
	if sum == absent {
		return nil, was, nil
	}
	archived, err = store.ReadFile(filepath.Join(s.originals, filepath.Base(sum)), unix.O_NOFOLLOW, maxOriginal)
	if errors.Is(err, fs.ErrNotExist) || s.originals == "" {
		return nil, nil, fmt.Errorf("its original is not kept: it has more than %d MiB, or the run was begun by an older version of bothy", maxOriginal>>20)
	}
	if err != nil {
		return nil, nil, err
	}
	l, err := listArchive(bytes.NewReader(archived), was)
	if err == nil && l.sum != sum {
		err = errors.New("the kept original is damaged")
	}
	return archived, was, err
}

// repair is the changes that restore a tree.
type repair struct {
	names []string        // names that differ
	gone  []string        // names to remove first
	wants map[string]bool // names to write; nil: all
}

// planOf compares the original state of a tree with the current one. It plans to restore all of it if
// the current state is unknown, or if something differs and files have several names.
func planOf(base string, was, is map[string]item) repair {
	linked := slices.ContainsFunc(slices.Collect(maps.Values(was)), func(i item) bool { return i.kind == tar.TypeLink })
	p := repair{wants: map[string]bool{}}
	for name, o := range was {
		if n, there := is[name]; !there || n != o {
			p.names, p.wants[name] = append(p.names, name), true
		}
	}
	for name, n := range is {
		o, was := was[name]
		if !was {
			p.names = append(p.names, name)
		}
		if !was || n != o && !canReplace(n.kind, o.kind) {
			p.gone = append(p.gone, name)
		}
	}
	if is == nil || linked && len(p.names) > 0 {
		p.gone, p.wants = []string{base}, nil
	}
	if is == nil {
		p.names = []string{base}
	}
	slices.Sort(p.names)
	slices.Sort(p.gone)
	return p
}

// canReplace reports whether one kind can replace the other without removing it first.
func canReplace(a, b byte) bool {
	files := []byte{tar.TypeReg, tar.TypeSymlink}
	return a == tar.TypeDir && b == tar.TypeDir || slices.Contains(files, a) && slices.Contains(files, b)
}

// sendRepair sends a repair to our own program inside.
func (s *Loop) sendRepair(ctx context.Context, sb *spec.Sandbox, rel string, kept []byte, p repair) error {
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	defer context.AfterFunc(ctx, func() { w.Close() })()
	q := wire.Command{Args: []string{guest.Path, guest.CopyName, "back", sb.Workspaces[0].Target, filepath.ToSlash(rel)}, User: "root", Dir: "/"}
	end, err := s.sessionIn(sb).Start(ctx, q, r, nil)
	r.Close()
	if err != nil {
		return err
	}
	err = p.write(w, kept)
	w.Close()
	if jerr := end(); jerr != nil {
		return jerr
	}
	return err
}

// write writes the repair for [archive.PutBack].
func (p *repair) write(w io.Writer, kept []byte) error {
	out := tar.NewWriter(w)
	if err := archive.WriteGone(out, p.gone); err != nil {
		return err
	}
	in := tar.NewReader(bytes.NewReader(kept))
	for len(kept) > 0 {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && (p.wants == nil || p.wants[path.Clean(h.Name)]) {
			if err = out.WriteHeader(h); err == nil {
				_, err = io.Copy(out, in)
			}
		}
		if err != nil {
			return err
		}
	}
	return out.Close()
}
