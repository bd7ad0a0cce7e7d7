package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/hostpath"
)

// keyDirs are directories in a home that hold keys, tokens and passwords: neither they nor what
// is below them is a project.
var keyDirs = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".config/gcloud", ".config/gh",
	".local/share/keyrings", ".mozilla", ".config/chromium", ".config/google-chrome",
}

// settingsDirs hold them among other things. A project may be below one, such as ~/.config/nvim.
var settingsDirs = []string{".config", ".local", ".local/share"}

// personal tells why a directory is no project but somebody's own; empty if it is not.
func (r Rules) personal(real string) string {
	if r.Home != "" {
		at := func(dir string) string { return filepath.Join(r.Home, dir) }
		holdsKeys := func(dir string) bool {
			return Within(realOr(at(dir)), real) || hostpath.SameFile(real, at(dir))
		}
		if slices.ContainsFunc(keyDirs, holdsKeys) || slices.ContainsFunc(settingsDirs, func(dir string) bool { return hostpath.SameFile(real, at(dir)) }) {
			return "holds keys and secrets of yours"
		}
	}
	for name, home := range homes() {
		if real == home || slices.ContainsFunc(keyDirs, func(dir string) bool { return Within(filepath.Join(home, dir), real) }) {
			return "holds keys and secrets of " + name
		}
	}
	return ""
}

// firstPerson is the first ID that systems give to people; accounts below have homes such as
// /var/www, in which projects are.
const firstPerson = 1000

// homes are the home directories of people, by their names.
func homes() map[string]string {
	found := map[string]string{}
	b, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 7 {
			continue
		}
		if uid, err := strconv.ParseUint(f[2], 10, 32); err == nil && uid >= firstPerson && uid != nobody && filepath.Clean(f[5]) != "/" {
			found[f[0]] = realOr(f[5])
		}
	}
	return found
}

const nobody = 65534
