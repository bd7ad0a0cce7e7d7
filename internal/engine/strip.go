package engine

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

// strip takes out of a home what is lent to its sandbox, and where that may be used:
// others begin with their own. Somebody inside may have made anything there.
func (e *Engine) strip(sb *spec.Sandbox, home *os.Root) error {
	if err := e.RemoveLendable(sb, home); err != nil {
		return err
	}
	return credential.ForgetNpm(home)
}

// RemoveLendable takes the files out of a home that are its sandbox's alone: what the
// agent of the sandbox has of a credential, and what any other logged in with that was run
// there. Where others would look there may be what leads out of the home, as with somebody
// whose settings lie in the workspace.
func (e *Engine) RemoveLendable(sb *spec.Sandbox, home *os.Root) error {
	anybodys, err := e.Agents.LoginFiles()
	if err != nil {
		return err
	}
	own, err := e.lendable(sb)
	if err != nil {
		return &spec.Error{Op: "look where its agent keeps what it logs in with", Err: err, Hint: spec.Hint(err)}
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

// eachLogin calls do for each path below a directory of a home that a pattern of logins
// may mean, there or not. Directories that lead out of the home, or cannot be read, have
// none.
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

// namesIn gives the names in a directory of a home that fit a pattern.
func namesIn(home *os.Root, dir, pattern string) (found []string, err error) {
	d, err := home.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(512) // there may be any number
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

// within tells whether the directories on the way to a name lie in a home.
func within(home *os.Root, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := home.Stat(dir); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// lendable are the files of a home that have placeholders in them, or what the agent of the
// sandbox logged in with itself.
func (e *Engine) lendable(sb *spec.Sandbox) ([]string, error) {
	a, err := e.Agents.In(sb)
	if a == nil {
		return nil, err
	}
	files := slices.Clone(a.Logins)
	for _, f := range a.Home {
		if lends(f) {
			files = append(files, f.Path)
		}
	}
	if a.Login != nil {
		files = append(files, credential.LoginFiles(a.Login)...)
	}
	return files, nil
}
