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

// LoginFiles returns the files below a home in which any described agent keeps its login: the user may
// run it in a sandbox of another agent, or in one of the shell. A description that cannot be read may be
// of any agent, and is an error.
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
	own, err := c.ownNames()
	for _, name := range own {
		a, err := c.describe(name)
		if err != nil {
			return nil, &spec.Error{Op: "list the login files of agents", Err: err, Hint: spec.Hint(err)}
		}
		files = append(files, loginsOf(a)...)
	}
	slices.Sort(files)
	return slices.Compact(files), err
}

// ownFiles returns the files in the user's directory of descriptions, which need not exist.
func (c Catalog) ownFiles() ([]fs.DirEntry, error) {
	if c.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(c.dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	return entries, err
}

func (c Catalog) ownNames() ([]string, error) {
	entries, err := c.ownFiles()
	return described(entries), err
}

// Ignored returns the user's files that look like descriptions but have an invalid name.
func (c Catalog) Ignored() (files []string, err error) {
	entries, err := c.ownFiles()
	for _, e := range entries {
		kind := strings.ToLower(path.Ext(e.Name()))
		if (kind == ext || kind == ".yml") && !strings.HasPrefix(e.Name(), ".") && len(described([]fs.DirEntry{e})) == 0 {
			files = append(files, filepath.Join(c.dir, e.Name()))
		}
	}
	return files, err
}

// described returns the names of the agents that a directory's files describe.
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

// plainLogins is loginsOf for one of our descriptions. They write it plainly, and decoding them all
// takes milliseconds, which is too long for a fork.
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
