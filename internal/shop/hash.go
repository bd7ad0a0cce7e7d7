package shop

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/guest"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// absent is the hash of what is not there.
const absent = "absent"

// hash hashes a file or a tree of the work. It is read inside a copy by a program of ours,
// and hashed out here.
func (s *Loop) hash(ctx context.Context, in *copies, path string) (sum string, err error) {
	err = in.reading(ctx, s.plan.Limits.Gate, func(ctx context.Context, sb *spec.Sandbox) (bool, error) {
		full := filepath.Join(sb.Workspaces[0].Target, path)
		r, w, err := os.Pipe()
		if err != nil {
			return true, err
		}
		defer r.Close()
		defer context.AfterFunc(ctx, func() { r.Close() })()
		job, err := s.preparing(sb).Start(ctx, wire.Command{Args: []string{guest.Path, guest.CopyName, "out", full, "straight"}, Dir: "/"}, nil, w)
		w.Close()
		if err != nil {
			return false, err
		}
		sum, err = hashTree(r)
		r.Close() // who goes on writing what cannot be read would wait for ever
		if jerr := job(); errors.Is(jerr, spec.ErrNotFound) {
			sum, err = absent, nil
		} else if jerr != nil {
			err = jerr
		}
		return true, err
	})
	return sum, err
}

// hashTree hashes what an archive holds: names, kinds, permissions, contents. Owners
// and times are not of interest.
func hashTree(r io.Reader) (string, error) {
	all := sha256.New()
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r)
			return hex.EncodeToString(all.Sum(nil)), err
		}
		if err == nil {
			err = hashEntry(all, h, in)
		}
		if err != nil {
			return "", fmt.Errorf("read what is protected: %w", err)
		}
	}
}

// hashEntry adds an entry. What is of variable length has its length before it.
func hashEntry(all hash.Hash, h *tar.Header, in io.Reader) error {
	fmt.Fprintf(all, "%c %o %d %q %q\n", h.Typeflag, h.Mode&0o7777, h.Size, h.Name, h.Linkname)
	if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
		fmt.Fprintf(all, "%d %d\n", h.Devmajor, h.Devminor)
	}
	_, err := io.Copy(all, in)
	return err
}
