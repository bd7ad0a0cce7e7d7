package sums

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// treeHead is the first line of a tree's sums, which names their format. It is followed by a line with
// the CRC32C, size and quoted path of each regular file, and the SHA-256 of all that.
const treeHead = "bothy tree 1\n"

// WriteTree writes the sums of the regular files below a directory into a file, which must not be below
// it. It does not follow links.
func WriteTree(path, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	text := bytes.NewBufferString(treeHead)
	buf := make([]byte, readSize)
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		sum, size, err := sumTreeFile(root, name, buf, nil)
		if err != nil {
			return fmt.Errorf("sum %q: %w", name, err)
		}
		fmt.Fprintf(text, "%08x %d %q\n", sum, size, name)
		return nil
	})
	if err != nil {
		return err
	}
	all := sha256.Sum256(text.Bytes())
	return os.WriteFile(path, append(text.Bytes(), all[:]...), 0o600)
}

// CheckTree compares the files below a directory with the sums that WriteTree wrote to path. It ignores
// files that the sums do not name. Without sums it returns ErrNone.
func CheckTree(path, dir string, read func(n int) error) error {
	all, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	}
	if err != nil {
		return err
	}
	n := len(all) - sha256.Size
	if n < 0 || sha256.Sum256(all[:n]) != [sha256.Size]byte(all[n:]) {
		return fmt.Errorf("%s: %w", filepath.Base(path), ErrDamaged)
	}
	list, ours := bytes.CutPrefix(all[:n], []byte(treeHead))
	if !ours {
		return unknownHead(path, all, treeHead)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	buf := make([]byte, readSize)
	lines := bufio.NewScanner(bytes.NewReader(list))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := checkTreeFile(root, lines.Text(), buf, read); err != nil {
			return err
		}
	}
	return lines.Err()
}

// maxLine is more than the longest quoted path needs.
const maxLine = 4*unix.PathMax + 64

func checkTreeFile(root *os.Root, line string, buf []byte, read func(n int) error) error {
	var sum uint32
	var size int64
	var name string
	if _, err := fmt.Sscanf(line, "%x %d %q", &sum, &size, &name); err != nil {
		return fmt.Errorf("%q: %w", line, ErrDamaged)
	}
	got, n, err := sumTreeFile(root, name, buf, read)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (got != sum || n != size) {
		err = ErrDamaged
	}
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	return nil
}

func sumTreeFile(root *os.Root, name string, buf []byte, read func(n int) error) (sum uint32, size int64, err error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for {
		n, err := f.Read(buf)
		sum, size = crc32.Update(sum, castagnoli(), buf[:n]), size+int64(n)
		if err == nil && read != nil {
			err = read(n)
		}
		if errors.Is(err, io.EOF) {
			return sum, size, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}
