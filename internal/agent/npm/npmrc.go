package npm

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/internal/npmrc"
)

type settings = npmrc.Settings

const maxNpmrc = 1 << 20

// readNpmrc reads one file. A missing one is empty.
func readNpmrc(path string, env func(string) (string, bool)) (settings, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil // npm continues without it, too
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxNpmrc {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return npmrc.Parse(string(text), env), nil
}

// loadSettings reads the configuration that npm would use outside of any project: the environment before the
// user's file before the machine's.
//
// The .npmrc of a project is not read. It belongs to the repository, which is not trusted: it could name
// a registry of its own. Its path also depends on the current directory.
func loadSettings(environ []string) (settings, error) {
	env := func(name string) (string, bool) {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v, true
			}
		}
		return "", false
	}
	given := npmrc.FromEnviron(environ)
	userFile := given["userconfig"]
	if home, ok := env("HOME"); ok && userFile == "" && filepath.IsAbs(home) {
		userFile = filepath.Join(home, ".npmrc")
	}
	user, err := readNpmrc(userFile, env)
	if err != nil {
		return nil, err
	}
	all := settings{}
	for _, file := range globalFiles(given, user, env) {
		global, err := readNpmrc(file, env)
		if err != nil {
			return nil, err
		}
		if global != nil {
			maps.Copy(all, global)
			break
		}
	}
	maps.Copy(all, user)
	maps.Copy(all, given)
	return all, nil
}

// globalFiles returns the possible paths of the machine's configuration: npm keeps it below its prefix,
// which is the directory of the node installation.
func globalFiles(given, user settings, env func(string) (string, bool)) []string {
	for _, s := range []settings{given, user} {
		if f := s["globalconfig"]; f != "" {
			return []string{f}
		}
		if prefix := s["prefix"]; prefix != "" {
			return []string{filepath.Join(prefix, "etc", "npmrc")}
		}
	}
	path, _ := env("PATH")
	for _, dir := range filepath.SplitList(path) {
		node, err := filepath.EvalSymlinks(filepath.Join(dir, "node"))
		if filepath.IsAbs(dir) && err == nil {
			return []string{filepath.Join(filepath.Dir(node), "..", "etc", "npmrc")}
		}
	}
	return []string{"/usr/local/etc/npmrc", "/usr/etc/npmrc"}
}
