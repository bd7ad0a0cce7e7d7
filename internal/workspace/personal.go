package workspace

import (
	"path/filepath"
	"slices"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/passwd"
)

// keyDirs are directories in a home that contain keys, tokens and passwords: neither they nor the
// directories below them are projects.
var keyDirs = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".config/gcloud", ".config/gh",
	".local/share/keyrings", ".mozilla", ".config/chromium", ".config/google-chrome",
}

// settingsDirs contain secrets among other things. A project may be below one, such as ~/.config/nvim.
var settingsDirs = []string{".config", ".local", ".local/share"}

// personal returns why a directory belongs to a person and is not a project. It is empty if it may be
// one.
func (r Rules) personal(real string) string {
	if r.Home != "" && r.keepsKeys(real) {
		return "holds keys and secrets of yours"
	}
	for name, home := range homesByName() {
		if real == home || slices.ContainsFunc(keyDirs, func(dir string) bool { return Within(filepath.Join(home, dir), real) }) {
			return "holds keys and secrets of " + name
		}
	}
	return ""
}

// keepsKeys reports whether the caller's home has keys or settings in a directory.
func (r Rules) keepsKeys(real string) bool {
	is := func(dir string) bool { return hostpath.SameFile(real, filepath.Join(r.Home, dir)) }
	isBelow := func(dir string) bool { return Within(realOr(filepath.Join(r.Home, dir)), real) }
	return slices.ContainsFunc(settingsDirs, is) || slices.ContainsFunc(keyDirs, is) || slices.ContainsFunc(keyDirs, isBelow)
}

// firstPerson is the first ID that systems give to people. Accounts below it have homes such as
// /var/www, in which projects are.
const (
	firstPerson = 1000
	nobody      = 65534
)

// homesByName returns the home directories of people by name. It follows links above a home, but does not
// access the home itself: it may be a mount that does not answer.
func homesByName() map[string]string {
	accounts, _ := passwd.Read()
	found, above := map[string]string{}, map[string]string{}
	for _, a := range accounts {
		home := filepath.Clean(a.Home)
		if a.UID < firstPerson || a.UID == nobody || home == "/" {
			continue
		}
		dir := filepath.Dir(home)
		if _, known := above[dir]; !known {
			above[dir] = dir
			if hostpath.Answers(dir) == nil {
				above[dir] = realOr(dir)
			}
		}
		found[a.Name] = filepath.Join(above[dir], filepath.Base(home))
	}
	return found
}
