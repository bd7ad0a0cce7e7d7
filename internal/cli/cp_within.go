package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// openPlace opens a directory of the host that something of a sandbox is written to. Below a
// directory that the sandbox writes to itself no link leads out of that: the inside may have
// made it, for somebody to copy to where it leads.
func openPlace(sb *spec.Sandbox, dir string) (*os.Root, error) {
	top, rel, err := writtenBy(sb, dir)
	if err != nil {
		return nil, err
	}
	if top == "" {
		return os.OpenRoot(dir)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	place, err := root.OpenRoot(rel)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, spec.Errorf(spec.ErrDenied, "%s may lead out of %s, which the sandbox writes to: %w", dir, top, err).
			WithHint("if the link in its path is yours, name where it leads to")
	}
	return place, err
}

// writtenBy finds the directory that a sandbox writes to on the way to another one, and
// the rest of the way, in which no link was followed; nothing if there is none.
func writtenBy(sb *spec.Sandbox, dir string) (top, rel string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", "", err
	}
	names := strings.Split(abs, "/")
	for i := range names {
		at, err := filepath.EvalSymlinks("/" + filepath.Join(names[:i+1]...))
		if err != nil {
			return "", "", nil // opening it says why
		}
		for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
			if m.ReadOnly || sb.Reviews(m) || sb.Clones(m) {
				continue
			}
			if rel, err := filepath.Rel(m.Source, at); err == nil && filepath.IsLocal(rel) {
				return m.Source, filepath.Join(append([]string{rel}, names[i+1:]...)...), nil
			}
		}
	}
	return "", "", nil
}
