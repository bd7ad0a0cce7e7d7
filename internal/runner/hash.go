package runner

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// absent is the hash of a missing file or tree.
const absent = "absent"

// hashTree hashes a file or a tree of the work. Our own program reads it inside a copy, and hash computes
// the sum on the host. The bytes are also written to kept, unless that is nil.
func (s *Loop) hashTree(ctx context.Context, in *copies, rel string, kept io.Writer) (sum string, err error) {
	err = in.reading(ctx, s.plan.Limits.Gate, func(ctx context.Context, sb *spec.Sandbox) (bool, error) {
		var l listing
		began, err := readTree(ctx, s.preparedSession(sb), sb, rel, "", func(r io.Reader) error {
			if kept != nil {
				r = io.TeeReader(r, kept)
			}
			l, err = listArchive(r, nil)
			return err
		})
		if sum = l.sum; errors.Is(err, spec.ErrNotFound) {
			sum, err = absent, nil
		}
		return began, err
	})
	return sum, err
}

// readTree has our own program read a file or a tree of a workspace without following links. The error
// is ErrNotFound if the path does not exist.
func readTree(ctx context.Context, in *headless.Session, sb *spec.Sandbox, rel, user string, read func(io.Reader) error) (began bool, err error) {
	full := filepath.Join(sb.Workspaces[0].Target, rel)
	r, w, err := os.Pipe()
	if err != nil {
		return true, err
	}
	defer r.Close()
	defer context.AfterFunc(ctx, func() { r.Close() })()
	job, err := in.Start(ctx, wire.Command{Args: []string{guest.Path, guest.CopyName, "out", full, "straight"}, User: user, Dir: "/"}, nil, w)
	w.Close()
	if err != nil {
		return false, err
	}
	err = read(r)
	r.Close() // a program that keeps writing unreadable data would wait for ever
	if jerr := job(); jerr != nil {
		err = jerr
	}
	return true, err
}

// listing is the hash of an archive and, if requested, its entries by name.
type listing struct {
	sum     string
	entries map[string]item
}

// item is an entry of an archive, with the sum of its relevant properties.
type item struct {
	kind byte
	sum  [sha256.Size]byte
}

// listArchive hashes the contents of an archive: names, kinds, permissions, contents. It ignores owners and
// times. It notes each entry in entries, unless that is nil.
func listArchive(r io.Reader, entries map[string]item) (listing, error) {
	all := sha256.New()
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r)
			return listing{hex.EncodeToString(all.Sum(nil)), entries}, err
		}
		if err == nil {
			one := sha256.New()
			err = hashEntry(io.MultiWriter(all, one), h, in)
			if entries != nil {
				entries[path.Clean(h.Name)] = item{h.Typeflag, [sha256.Size]byte(one.Sum(nil))}
			}
		}
		if err != nil {
			return listing{}, fmt.Errorf("read the protected files: %w", err)
		}
	}
}

// hashEntry adds an entry to a hash. Data of variable length follows its length.
func hashEntry(all io.Writer, h *tar.Header, in io.Reader) error {
	fmt.Fprintf(all, "%c %o %d %q %q\n", h.Typeflag, h.Mode&0o7777, h.Size, h.Name, h.Linkname)
	if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
		fmt.Fprintf(all, "%d %d\n", h.Devmajor, h.Devminor)
	}
	_, err := io.Copy(all, in)
	return err
}
