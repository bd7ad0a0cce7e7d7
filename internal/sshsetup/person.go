package sshsetup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// maxConfig bounds the person's configuration, in bytes.
const maxConfig = 1 << 20

// mark is the line before the one that includes our file. It tells ours from the person's lines if another
// state directory was set up.
const mark = "# Sandboxes of Bothy: ssh NAME.bothy. Remove these two lines with: bothy setup ssh --remove"

// withInclude returns a configuration that begins with the line. A line that the person wrote does as well.
func withInclude(text, include string) string {
	if includes(text, include) && !strings.Contains(text, mark) {
		return text
	}
	return mark + "\n" + include + "\n" + withoutInclude(text, include)
}

// withoutInclude returns a configuration without the line, and without that of another state directory.
func withoutInclude(text, include string) string {
	var kept []string
	marked := false
	for line := range strings.Lines(text) {
		word := strings.TrimSpace(line)
		ours := word == mark || word == include || marked && strings.HasPrefix(word, "Include ")
		marked = word == mark
		if !ours {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// includes reports whether a configuration has the line before its first section.
func includes(text, include string) bool {
	for line := range strings.Lines(text) {
		word := strings.TrimSpace(line)
		if word == include {
			return true
		}
		first, _, _ := strings.Cut(strings.Map(endKeyword, strings.ToLower(word)), " ")
		if slices.Contains([]string{"host", "match"}, first) {
			return false
		}
	}
	return false
}

// endKeyword makes a space of each character that ends a keyword.
func endKeyword(r rune) rune {
	if strings.ContainsRune("\t=\"", r) {
		return ' '
	}
	return r
}

// readPerson returns the person's configuration; empty if there is none.
func (s *Setup) readPerson() (string, error) {
	text, err := s.paths.ReadFile(s.person(), maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// editPerson changes the person's configuration, and reports whether it did. It writes only a plain file of the
// person in a plain directory of the person: anything else belongs to another program, or is a link that may
// lead anywhere. byHand says how the person can make the change.
func (s *Setup) editPerson(change func(string) string, byHand string) (changed bool, err error) {
	path := s.person()
	text, err := s.readPerson()
	if err != nil {
		return false, &spec.Error{Op: "read " + path, Err: err}
	}
	next := change(text)
	if next == text {
		return false, nil
	}
	mode, why := s.writable()
	if why != "" {
		return false, spec.Errorf(spec.ErrConflict, "%s is not changed: %s", path, why).WithHint("%s", byHand)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, (&spec.Error{Op: "make the directory of " + path, Err: err}).WithHint("%s", byHand)
	}
	if next == "" {
		err = os.Remove(path)
	} else if err = store.WriteFile(path, []byte(next)); err == nil && mode != 0 {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		return false, (&spec.Error{Op: "change " + path, Err: err}).WithHint("%s", byHand)
	}
	return true, nil
}

// writable returns the mode of the person's configuration, or why it must not be written.
func (s *Setup) writable() (mode fs.FileMode, why string) {
	path := s.person()
	if s.paths.WrittenAt(path) {
		return 0, "a sandbox may write to its directory"
	}
	for _, place := range []string{filepath.Dir(path), path} {
		info, err := os.Lstat(place)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, ""
		}
		if err != nil {
			return 0, err.Error()
		}
		owner := info.Sys().(*syscall.Stat_t).Uid
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			return 0, place + " is a link, so another program may keep it"
		case place == path && !info.Mode().IsRegular():
			return 0, "it is not a regular file"
		case place == path && info.Mode()&0o200 == 0:
			return 0, "it is read-only"
		case int(owner) != os.Geteuid():
			return 0, fmt.Sprintf("%s belongs to another user (uid %d)", place, owner)
		}
		mode = info.Mode().Perm()
	}
	return mode, ""
}
