package login

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Key is an API key in a file of the host, in JSON.
type Key struct {
	Path    string
	Pointer string // to it
}

// maxKeyFile bounds what is read, in bytes: some agents keep all they know in one file.
const maxKeyFile = 16 << 20

// FindKey says where the key of a description lies, as [Find] does of a login.
func FindKey(how spec.AgentKey, home string, getenv func(string) string) Key {
	return Key{lies(how.File, how.Directory, home, getenv), how.Key}
}

// Read reads the key. Without one the error is [ErrNone], whoever may read the file: most in
// which one could stand have none. A symbolic link has none either: what it leads to may lie
// in a directory that sandboxes write to. No error quotes anything of the file.
func (k Key) Read() (string, error) {
	file, err := openFile(k.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return "", ErrNone
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	st, err := ownRegular(file)
	if err != nil {
		return "", err
	}
	data, err := store.ReadAll(file, maxKeyFile)
	if err != nil {
		return "", err
	}
	all, err := decodeObject(data)
	if err != nil {
		return "", err
	}
	v := get(all, k.Pointer)
	if v == nil || v == "" {
		return "", ErrNone
	}
	s, ok := v.(string)
	if !ok || !isToken(s) {
		return "", fmt.Errorf("what it has at %s is no key", k.Pointer)
	}
	return s, private(file, st)
}
