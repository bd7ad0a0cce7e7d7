package review

import (
	"path"
	"slices"
	"strings"
)

// gitRuns is why a file that git obeys has a flag.
const gitRuns = "git runs programs by its hooks and settings"

// gitData is what git keeps in its directory and runs nothing by.
var gitData = []string{"objects", "refs", "logs", "index", "index.lock", "head", "orig_head", "fetch_head", "merge_head", "merge_msg", "merge_mode", "cherry_pick_head", "revert_head", "rebase_head", "auto_merge", "commit_editmsg", "squash_msg", "packed-refs", "shallow", "description", "branches", "gc.pid", "gc.log", "rr-cache"}

// gitSettings is what git runs programs by, or is led elsewhere by, in a directory that it
// takes for its own, whatever that is called.
var gitSettings = []string{"config*", "hooks", "info", "commondir", "gitdir", "modules", "worktrees", "rebase-merge", "rebase-apply", "sequencer"}

// gitFlag judges what lies in a directory called .git, or is the file that says where
// that is, at any depth. A link in the place of what git keeps leads it elsewhere.
func gitFlag(lower string, form Form) (Flag, bool) {
	names := strings.Split(lower, "/")
	for i, name := range names {
		if name != ".git" {
			continue
		}
		rest := names[i+1:]
		if len(rest) == 0 {
			return Flag{Why: "git takes its settings from there"}, true
		}
		if slices.Contains(gitData, rest[0]) && !isBorrowing(rest) && form != Link && form != Special {
			return Flag{Why: "what git keeps", Git: true}, true
		}
		return Flag{Why: gitRuns}, true
	}
	return Flag{}, false
}

// isBorrowing tells whether a path in a directory of git's says from where it takes objects.
func isBorrowing(rest []string) bool {
	return len(rest) > 2 && rest[0] == "objects" && rest[1] == "info"
}

// noteRepository remembers a directory that git takes for its own by what is in it, on
// either side: names are those that the inside has. What cannot be looked at may be there.
func (l *look) noteRepository(at string, host *dir, names []string) {
	has := func(name string) bool {
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return true
		}
		_, there, err := host.stat(name)
		return there || err != nil
	}
	// Where there is a commondir, objects and references lie there, and no HEAD is wanted.
	if has("objects") && (has("HEAD") || has("refs")) || has("commondir") && has("HEAD") {
		l.repositories[at] = true
	}
}

// setsGit tells whether a change is of what git obeys in such a directory, or puts something
// else into the place of one.
func (l *look) setsGit(c *Change) bool {
	if len(l.repositories) == 0 {
		return false
	}
	if c.Kind == Type && l.repositories[c.Path] {
		return true
	}
	for at := c.Path; at != ""; {
		if at = path.Dir(at); at == "." {
			at = ""
		}
		if l.repositories[at] && isGitSetting(strings.TrimPrefix(c.Path[len(at):], "/"), c.New.Form) {
			return true
		}
	}
	return false
}

// isGitSetting judges a path in a directory of git's. A directory holds nothing yet.
func isGitSetting(rel string, form Form) bool {
	rest := strings.Split(strings.ToLower(rel), "/")
	if form == Directory && len(rest) == 1 {
		return false
	}
	if form == Link && slices.Contains(gitData, rest[0]) {
		return true
	}
	return isBorrowing(rest) || slices.ContainsFunc(gitSettings, func(p string) bool { return matchAll([]string{p}, rest[:1]) })
}

// InGit tells whether a path lies in a directory that git keeps, or is one: git apply refuses
// a patch that has such a path.
func (c Change) InGit() bool {
	return slices.ContainsFunc(strings.Split(c.Path, "/"), func(name string) bool { return strings.EqualFold(name, ".git") })
}
