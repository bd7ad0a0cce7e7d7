package oauthfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Key is an API key in a file of the host.
type Key struct {
	Path    string
	Pointer string // to it, in JSON; in a file of variables, the name of one
	Command bool   // the value is a command that prints the key
}

// IsVariables reports whether a file holds variables, as its name says, and not JSON.
func IsVariables(path string) bool { return filepath.Base(path) == ".env" }

// maxKeyFile bounds the file, in bytes: some agents keep all their data in one file.
const maxKeyFile = 16 << 20

// FindKey returns the location of a description's key, as [Find] does for a login.
func FindKey(how spec.AgentKey, home string, getenv func(string) string) Key {
	return Key{Path: Lies(how.File, how.Directory, home, getenv), Pointer: how.Key, Command: how.Command}
}

// ErrCommand reports that the file has a command for the key. The command is never run, even if the
// file belongs to the user: a sandbox that may write the file could escape by it.
var ErrCommand = errors.New("a command in a file is not run")

// Read reads the key. If the file has none, the error is [ErrNone], whatever the file's mode, because
// most such files have no key. A symbolic link counts as having none: its target may be in a directory
// that sandboxes write to. No error quotes anything of the file.
func (k Key) Read() (string, error) {
	v, open, err := k.readValue()
	if err != nil {
		return "", err
	}
	if v == nil || v == "" {
		return "", ErrNone
	}
	if k.Command {
		return "", ErrCommand
	}
	s, ok := v.(string)
	if !ok || !isToken(s) {
		return "", fmt.Errorf("its value at %s is not a key", k.Pointer)
	}
	return s, open
}

// Lists reports whether the value is a list that contains a text.
func (k Key) Lists(text string) (bool, error) {
	v, err := k.written()
	list, _ := v.([]any)
	return slices.Contains(list, any(text)), err
}

// Plain returns a value that is not secret, such as a URL; "" if it is missing.
func (k Key) Plain() (string, error) {
	v, err := k.written()
	s, ok := v.(string)
	if err == nil && v != nil && !ok {
		err = fmt.Errorf("its value at %s is not a text", k.Pointer)
	}
	return s, err
}

// written returns a value that is not secret; nil if it is missing. It follows a symbolic
// link, as the agent does.
func (k Key) written() (any, error) {
	data, err := store.ReadFile(k.Path, 0, maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return k.plainValue(data)
}

// plainValue is valueIn for settings that users write.
func (k Key) plainValue(data []byte) (any, error) {
	if IsVariables(k.Path) {
		return k.valueIn(data)
	}
	names := pointerNames(k.Pointer)
	if !bytes.Contains(data, []byte(names[len(names)-1])) && json.Valid(data) {
		return nil, nil // true of most files, and some have megabytes
	}
	all, err := settings(k.Path, data)
	if err != nil {
		return nil, err
	}
	return k.pickMember(all)
}

// readValue returns the value; open is the error if others may use the file.
func (k Key) readValue() (v any, open, err error) {
	file, err := openFile(k.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, nil, ErrNone
	}
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	st, err := ownRegular(file)
	if err != nil {
		return nil, nil, err
	}
	data, err := store.ReadAll(file, maxKeyFile)
	if err != nil {
		return nil, nil, err
	}
	v, err = k.valueIn(data)
	return v, private(file, st), err
}

// valueIn returns the value at the key's place; nil if it is missing.
func (k Key) valueIn(data []byte) (any, error) {
	if IsVariables(k.Path) {
		return variable(string(data), k.Pointer), nil
	}
	all, err := decodeObject(withoutHead(data))
	if err != nil {
		return nil, err
	}
	return k.pickMember(all)
}

// settings reads a file that users write: TOML, or JSON with comments and trailing commas.
// Its errors quote nothing of the file.
func settings(path string, data []byte) (all map[string]any, err error) {
	if strings.HasSuffix(path, ".toml") {
		if len(data) > maxNested {
			return nil, fmt.Errorf("it is larger than %d KiB", maxNested>>10)
		}
		if toml.Unmarshal(data, &all) != nil {
			err = errors.New("it is not TOML")
		}
		return all, err
	}
	if all, err = decodeObject(data); err == nil || len(data) > maxNested {
		return all, err
	}
	plain, err := hujson.Standardize(data)
	if err != nil {
		return nil, errors.New("it is not a JSON object")
	}
	return decodeObject(plain)
}

// maxNested bounds TOML, and JSON with comments, in bytes: their parsers recurse for each bracket.
const maxNested = 128 << 10

// withoutHead removes the comments above a document, which some programs write to claim the file.
func withoutHead(data []byte) []byte {
	for {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("//")) {
			return data
		}
		data = rest
	}
}

// pickMember returns the value at the pointer. A name in it that ends with * matches any member with
// that prefix, such as one for each account. If several members match, the key is ambiguous.
func (k Key) pickMember(all map[string]any) (v any, err error) {
	v = all
	for _, name := range pointerNames(k.Pointer) {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, nil
		}
		v = m[name]
		if begin, some := strings.CutSuffix(name, "*"); some {
			v, err = k.onlyMember(m, begin)
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

// onlyMember returns the one non-empty member whose name has a prefix.
func (k Key) onlyMember(m map[string]any, begin string) (v any, err error) {
	for name, member := range m {
		if !strings.HasPrefix(name, begin) || member == nil || member == "" {
			continue
		}
		if v != nil {
			return nil, fmt.Errorf("it has several at %s, and does not say which is meant", k.Pointer)
		}
		v = member
	}
	return v, nil
}

// variable returns the last value of a variable in a file; "" if it is missing. Text after
// a blank and # is a comment, unless it is within quotes.
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
