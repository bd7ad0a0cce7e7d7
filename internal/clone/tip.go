package clone

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/hostpath"
)

// Tip returns a state that differs between two calls if there was a commit between them: the
// contents of HEAD, and, if known, its commit. State is empty while the repository has no commit.
// Each directory overlays those after it; only the last must exist. The sandbox may have written
// all of them, so Tip reads nothing outside of the directories.
func Tip(dirs ...string) (state, commit string) {
	text, at := newest(dirs, "HEAD", maxRef)
	if text == nil {
		return at, ""
	}
	ref, hash, err := target(text)
	if err != nil || ref == "" {
		return string(text), hash
	}
	text, at = newest(dirs, ref, maxRef)
	if _, hash, err := target(text); err == nil && hash != "" {
		return ref + " " + hash, hash
	}
	_, packed := newest(dirs, "packed-refs", 0)
	if text == nil && at == "" && packed == "" {
		return "", ""
	}
	return ref + " " + string(text) + at + packed, ""
}

// newest reads a file of the git directory in the first of several directories that has it. at
// identifies the state of the file; it is empty if none has it.
func newest(dirs []string, name string, most int64) (text []byte, at string) {
	for _, dir := range dirs {
		root, err := hostpath.OpenRealRoot(filepath.Join(dir, ".git"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, ""
		}
		defer root.Close()
		info, err := root.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !info.Mode().IsRegular() { // such as the mark of a deletion
			return nil, ""
		}
		at = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		if most > 0 {
			text, _ = readIn(root, name, most)
		}
		return text, at
	}
	return nil, ""
}
