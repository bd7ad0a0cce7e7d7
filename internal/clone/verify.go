package clone

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1" //nolint:gosec // what git names objects by
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrDamaged says that an object, or a pack of objects, does not match its name or its checksum.
var ErrDamaged = errors.New("it is damaged: its content changed after it was written")

// Damage reads all objects of a private clone, in which the sandbox may have made anything, and
// returns the damaged files. It does not run git. It calls read with the number of bytes read; an
// error of read ends the check.
func Damage(ctx context.Context, dir string, read func(n int) error) (damage []error, err error) {
	top := filepath.Join(dir, "tree", ".git", "objects")
	root, err := os.OpenRoot(top)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return []error{err}, nil
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, fs.ErrNotExist) { // git moves things while it works
			return nil
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		bad, err := damaged(root, name, read)
		if bad != nil {
			damage = append(damage, fmt.Errorf("%s: %w", filepath.Join(top, name), bad))
		}
		return err
	})
	return damage, err
}

// damaged checks one file: a loose object, or a pack or its index.
func damaged(root *os.Root, name string, read func(n int) error) (bad, err error) {
	id := strings.ReplaceAll(name, "/", "")
	loose := len(name) == len(id)+1 && len(filepath.Dir(name)) == 2 && isHex(id)
	packed := filepath.Dir(name) == "pack" && (strings.HasSuffix(name, ".pack") || strings.HasSuffix(name, ".idx"))
	if !loose && !packed {
		return nil, nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return err, nil
	}
	defer f.Close()
	from := &tally{f, read, nil}
	if loose {
		bad = checkLoose(from, id)
	} else {
		bad = checkPack(from, f)
	}
	return bad, from.ended
}

// tally is a reader that reports how much was read. Ended is the error that ended it.
type tally struct {
	from  io.Reader
	read  func(n int) error
	ended error
}

func (c *tally) Read(p []byte) (int, error) {
	if c.ended != nil {
		return 0, c.ended
	}
	n, err := c.from.Read(p)
	if n > 0 {
		c.ended = c.read(n)
	}
	return n, err
}

// newHash returns the hash whose names have so many bytes, nil for none.
func newHash(size int) hash.Hash {
	switch size {
	case sha1.Size:
		return sha1.New() //nolint:gosec // likewise
	case sha256.Size:
		return sha256.New()
	}
	return nil
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// checkLoose compares an object with its name.
func checkLoose(from io.Reader, id string) error {
	h := newHash(len(id) / 2)
	if h == nil {
		return nil
	}
	z, err := zlib.NewReader(from)
	if err == nil {
		_, err = io.Copy(h, z)
	}
	if err != nil || hex.EncodeToString(h.Sum(nil)) != id {
		return ErrDamaged
	}
	return nil
}

// checkPack compares a pack, or an index of one, with the hash at its end. Which hash the
// repository uses is not asked: one of the two must agree.
func checkPack(from io.Reader, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	one, other := sha1.New(), sha256.New() //nolint:gosec // likewise
	ends := []struct {
		h    hash.Hash
		left int64
	}{{one, info.Size() - sha1.Size}, {other, info.Size() - sha256.Size}}
	buf := make([]byte, 256<<10)
	var tail []byte
	for {
		n, err := from.Read(buf)
		for i := range ends {
			some := buf[:max(0, min(int64(n), ends[i].left))]
			ends[i].h.Write(some)
			ends[i].left -= int64(n)
		}
		tail = append(tail, buf[:n]...)
		tail = tail[max(0, len(tail)-sha256.Size):]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	for _, e := range ends {
		if len(tail) >= e.h.Size() && bytes.Equal(e.h.Sum(nil), tail[len(tail)-e.h.Size():]) {
			return nil
		}
	}
	return ErrDamaged
}
