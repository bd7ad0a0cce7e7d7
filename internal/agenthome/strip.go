package agenthome

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/spec"
)

// Strip removes from a home the lent credentials of its sandbox, and the settings of where they may be
// used: other sandboxes get their own. Programs inside may have put any file there.
func (h Homes) Strip(sb *spec.Sandbox, home *os.Root) error {
	if err := h.RemoveLendable(sb, home); err != nil {
		return err
	}
	return credential.ForgetNpm(home)
}

// RemoveLendable removes the files from a home that belong to its sandbox alone: the credential files of
// its agent, and the logins of any other agent that was run there. The places of other agents' logins
// may lead out of the home, for example if a user keeps settings in the workspace; those are left alone.
func (h Homes) RemoveLendable(sb *spec.Sandbox, home *os.Root) error {
	anybodys, err := h.Agents.LoginFiles()
	if err != nil {
		return err
	}
	own, err := h.lendable(sb)
	if err != nil {
		return &spec.Error{Op: "find the login files of its agent", Err: err, Hint: spec.Hint(err)}
	}
	for _, pattern := range slices.Concat(own, anybodys) {
		err := eachLogin(home, ".", strings.Split(pattern, "/"), func(name string) error {
			if !slices.Contains(own, pattern) && !within(home, name) {
				return nil
			}
			return home.RemoveAll(name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachLogin calls do for each path below a directory of a home that a pattern of logins may match,
// whether it exists or not. It skips directories that lead out of the home or cannot be read.
func eachLogin(home *os.Root, dir string, steps []string, do func(name string) error) error {
	i := slices.IndexFunc(steps, func(step string) bool { return strings.Contains(step, "*") })
	if i < 0 {
		return do(path.Join(dir, path.Join(steps...)))
	}
	dir = path.Join(dir, path.Join(steps[:i]...))
	names, err := namesIn(home, dir, steps[i])
	for _, name := range names {
		if err := eachLogin(home, path.Join(dir, name), steps[i+1:], do); err != nil {
			return err
		}
	}
	return err
}

// namesIn returns the names in a directory of a home that match a pattern.
func namesIn(home *os.Root, dir, pattern string) (found []string, err error) {
	d, err := home.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(512) // the number is unbounded
		for _, name := range names {
			if ok, _ := path.Match(pattern, name); ok {
				found = append(found, name)
			}
		}
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, fmt.Errorf("look for logins: %w", err)
		}
	}
}

// within reports whether the directories on the way to a name are in a home.
func within(home *os.Root, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := home.Stat(dir); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// lendable returns the files of a home that contain placeholders, or the own login of the sandbox's
// agent.
func (h Homes) lendable(sb *spec.Sandbox) ([]string, error) {
	a, err := h.Agents.In(sb)
	if a == nil {
		return nil, err
	}
	files := slices.Clone(a.Logins)
	for _, f := range a.Home {
		if namesPlaceholder(f) {
			files = append(files, f.Path)
		}
	}
	if a.Login != nil {
		files = append(files, credential.LoginFiles(a.Login)...)
	}
	return files, nil
}
