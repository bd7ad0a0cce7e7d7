package login

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Key is an API key in a file of the host.
type Key struct {
	Path    string
	Pointer string // to it, in JSON; of variables the name of one
}

// IsVariables tells whether a file holds variables, as its name says, and not JSON.
func IsVariables(path string) bool { return filepath.Base(path) == ".env" }

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
	var v any = variable(string(data), k.Pointer)
	if !IsVariables(k.Path) {
		all, err := decodeObject(data)
		if err != nil {
			return "", err
		}
		v = get(all, k.Pointer)
	}
	if v == nil || v == "" {
		return "", ErrNone
	}
	s, ok := v.(string)
	if !ok || !isToken(s) {
		return "", fmt.Errorf("what it has at %s is no key", k.Pointer)
	}
	return s, private(file, st)
}

// variable gives what a file of variables says of one, the last time; nothing if it does
// not. What is behind a blank and # is a comment, unless it is within quotes.
func variable(text, name string) (value string) {
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		before, after, ok := strings.Cut(line, "=")
		if !ok || strings.TrimSpace(before) != name {
			continue
		}
		value = strings.TrimSpace(after)
		if quote := value[:min(1, len(value))]; quote == `"` || quote == "'" {
			if within, _, ok := strings.Cut(value[1:], quote); ok {
				value = within
				continue
			}
		}
		value, _, _ = strings.Cut(value, " #")
		value = strings.TrimSpace(value)
	}
	return value
}
