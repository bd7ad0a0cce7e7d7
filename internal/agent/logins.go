package agent

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// LoginFiles are the files below a home in which any agent that is described keeps what it
// logged in with: one may be run in a sandbox of another, or in one of the shell. A
// description that cannot be read may be of any, and is an error.
func (c Catalog) LoginFiles() ([]string, error) {
	entries, err := builtin.ReadDir("agents")
	if err != nil { // they are in the binary
		return nil, err
	}
	var files []string
	for _, name := range described(entries) {
		data, err := builtin.ReadFile(path.Join("agents", name+ext))
		if err != nil {
			return nil, err
		}
		files = append(files, plainLogins(string(data))...)
	}
	own, err := c.own()
	for _, name := range own {
		a, err := c.describe(name)
		if err != nil {
			return nil, &spec.Error{Op: "look where agents keep what they log in with", Err: err, Hint: spec.Hint(err)}
		}
		files = append(files, loginsOf(a)...)
	}
	slices.Sort(files)
	return slices.Compact(files), err
}

// own are the names of the user's descriptions.
func (c Catalog) own() (names []string, err error) {
	if c.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(c.dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	return described(entries), err
}

// Ignored are the user's files that look like descriptions, and are called as none is.
func (c Catalog) Ignored() (files []string, err error) {
	if c.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(c.dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	for _, e := range entries {
		kind := strings.ToLower(path.Ext(e.Name()))
		if (kind == ext || kind == ".yml") && !strings.HasPrefix(e.Name(), ".") && len(described([]fs.DirEntry{e})) == 0 {
			files = append(files, filepath.Join(c.dir, e.Name()))
		}
	}
	return files, err
}

// described are the names of the agents that files of a directory describe.
func described(entries []fs.DirEntry) (names []string) {
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ext); ok && CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

func loginsOf(a *spec.Agent) []string {
	files := slices.Clone(a.Logins)
	if a.Login != nil {
		files = append(files, a.Login.File)
	}
	return files
}

// plainLogins is loginsOf for one of ours. They write it plainly: to decode them all takes
// milliseconds, and a fork has no time for that.
func plainLogins(text string) (files []string) {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if key, rest, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
			section = key
			if list, ok := strings.CutPrefix(strings.TrimSpace(rest), "["); ok && key == "logins" {
				list, _, _ = strings.Cut(list, "]")
				files = append(files, strings.Split(list, ", ")...)
			}
		}
		if file, ok := strings.CutPrefix(line, "  file: "); ok && section == "login" {
			files = append(files, file)
		}
	}
	return files
}
