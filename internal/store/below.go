package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MaxSmall bounds a file that is read as a whole, in bytes: rules, keys, values, scripts.
const MaxSmall = 1 << 20

// ReadSmall reads a regular file of at most [MaxSmall] bytes. It follows no link.
func ReadSmall(path string) ([]byte, error) {
	return ReadFile(path, unix.O_NOFOLLOW, MaxSmall)
}

// PlaceBelow writes a new file below a directory, with the directories on its path. It keeps an existing
// file, which is not an error.
func PlaceBelow(dir *os.Root, name, text string) error {
	if err := dir.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// RegularBelow reads a regular file below a directory in which programs of a sandbox may have put any
// file. ok is false for everything else, and for a file of more than most bytes.
func RegularBelow(dir *os.Root, name string, most int64) (text []byte, ok bool) {
	info, err := dir.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil, false
	}
	file, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, false
	}
	text, err = ReadAll(file, most)
	return text, err == nil
}
