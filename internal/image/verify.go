package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/sums"
)

// Verify compares a root with its sums. It returns ErrNone of package sums if a version before sums made
// the root.
func (r Root) Verify(read func(n int) error) error {
	files, err := sums.Open(r.Dir)
	if err != nil {
		return err
	}
	defer files.Close()
	return files.Check(read)
}

// ErrDamagedRoot reports that a root is damaged. It can be rebuilt from the blobs.
var ErrDamagedRoot = errors.New("the root is damaged")

// UsableRoot is Root, but also checks the root before use: the error of a damaged one is both
// fs.ErrNotExist and ErrDamagedRoot. Sandboxes map the file, so its pages cannot be checked as they are
// loaded. Sizes are compared each time, and all of the content only if the kernel has seen it change
// since it was made. Damage by the disk itself is found by bothy system verify.
func (s Shelf) UsableRoot(digest string) (Root, error) {
	r, err := s.Root(digest)
	if err != nil {
		return r, err
	}
	files, err := sums.Open(r.Dir)
	if errors.Is(err, sums.ErrNone) { // an older version made it
		return r, nil
	}
	if err == nil {
		err = r.checkChanged(files)
		files.Close()
	}
	if err != nil {
		return r, fmt.Errorf("%w: %w (%w)", ErrDamagedRoot, err, fs.ErrNotExist)
	}
	return r, nil
}

func (r Root) checkChanged(files *sums.Files) error {
	list := filepath.Join(r.Dir, sums.Name)
	made, err := changed(list)
	if err != nil {
		return err
	}
	for _, name := range files.Names() {
		at, err := changed(filepath.Join(r.Dir, name))
		if err != nil {
			return err
		}
		if at.After(made) {
			if err := files.Check(nil); err != nil {
				return err
			}
			now := time.Now()
			_ = os.Chtimes(list, now, now) // so that it is not checked again the next time
			return nil
		}
	}
	return nil
}

// changed is the time of the last change of a file's inode.
func changed(path string) (time.Time, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return time.Time{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return time.Unix(st.Ctim.Unix()), nil
}

// Blobs returns the paths of all complete blobs.
func (s Shelf) Blobs() ([]string, error) {
	return without(s.blobsDir(), func(name string) bool { return strings.HasPrefix(name, ".") })
}

// VerifyBlob compares a blob with the digest in its name.
func VerifyBlob(path string, read func(n int) error) error {
	f, err := store.OpenRegular(path, unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	h, buf := sha256.New(), make([]byte, 256<<10)
	for {
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if err == nil && read != nil {
			err = read(n)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != filepath.Base(path) {
		return fmt.Errorf("its digest is sha256:%s: %w", got, sums.ErrDamaged)
	}
	return nil
}
