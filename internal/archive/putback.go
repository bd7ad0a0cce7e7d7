package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// goneName is the first entry that [PutBack] reads. It lists names to remove before anything is put
// back, each with a zero byte after it.
const goneName = "gone"

// maxGone bounds that list, in bytes.
const maxGone = 64 << 20

// WriteGone begins an archive for PutBack. The names are like those of the archive.
func WriteGone(w *tar.Writer, names []string) error {
	list := strings.Join(append(names, ""), "\x00")
	if len(list) > maxGone {
		return errors.New("too many names are to be removed")
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: goneName, Mode: 0o600, Size: int64(len(list))}); err != nil {
		return err
	}
	_, err := io.WriteString(w, list)
	return err
}

// PutBack removes and replaces files at a path below a directory, as an archive of that path says, with
// the archive's owners and full modes. It follows no link: it replaces a link on the way to the path
// with a directory. It may be interrupted anywhere, and repeated.
func PutBack(r io.Reader, dir, rel string) error {
	rel = path.Clean(rel)
	if rel == "." || !filepath.IsLocal(rel) {
		return errOutside
	}
	at, err := openStraight(dir)
	if err != nil {
		return opening(dir, err)
	}
	defer func() { unix.Close(at) }()
	if above := path.Dir(rel); above != "." {
		for name := range strings.SplitSeq(above, "/") {
			next, err := clearWay(at, name)
			if err != nil {
				return fmt.Errorf("make way for %s: %w", rel, err)
			}
			unix.Close(at)
			at = next
		}
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", at))
	if err != nil {
		return err
	}
	defer root.Close()
	tr := tar.NewReader(r)
	if err := removeGone(tr, root, path.Base(rel)); err != nil {
		return err
	}
	own, err := dirHandle(root)
	if err != nil {
		return err
	}
	return extractAll(tr, own, ExtractOptions{exact: true})
}

// clearWay opens a directory of a name. It removes any other file of that name, but not a
// directory.
func clearWay(parent int, name string) (int, error) {
	fd, _, err := openOrMake(parent, name)
	if err == nil {
		return fd, nil
	}
	var st unix.Stat_t
	if unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return -1, err
	}
	if err := unix.Unlinkat(parent, name, 0); err != nil {
		return -1, err
	}
	fd, _, err = openOrMake(parent, name)
	return fd, err
}

// removeGone removes the names that the archive lists as missing.
func removeGone(tr *tar.Reader, root *os.Root, base string) error {
	h, err := tr.Next()
	if err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	if h.Name != goneName || h.Size > maxGone {
		return errors.New("the archive does not begin with the names to remove")
	}
	list, err := io.ReadAll(tr)
	if err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		if name = path.Clean(name); name != base && !strings.HasPrefix(name, base+"/") {
			return errOutside
		}
		if err := root.RemoveAll(name); err != nil && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
	return nil
}
