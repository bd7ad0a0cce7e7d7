package risk

import (
	"path"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/review/beneath"
)

// gitRuns is the reason for the flag of a file that git obeys.
const gitRuns = "git runs programs by its hooks and settings"

// gitData are git's own files in its directory, by which it runs nothing.
var gitData = []string{"objects", "refs", "logs", "index", "index.lock", "head", "orig_head", "fetch_head", "merge_head", "merge_msg", "merge_mode", "cherry_pick_head", "revert_head", "rebase_head", "auto_merge", "commit_editmsg", "squash_msg", "packed-refs", "shallow", "description", "branches", "gc.pid", "gc.log", "rr-cache"}

// gitSettings are the files by which git runs programs, or finds other directories. They are in
// any directory that git takes for its own, whatever its name.
var gitSettings = []string{"config*", "hooks", "info", "commondir", "gitdir", "modules", "worktrees", "rebase-merge", "rebase-apply", "sequencer"}

// gitFlag returns the flag of a path in a directory called .git, at any depth, or of the file
// .git that names the directory. A link in the place of git's own files may lead git elsewhere.
func gitFlag(lower string, form beneath.Form) (Flag, bool) {
	names := strings.Split(lower, "/")
	for i, name := range names {
		if name != ".git" {
			continue
		}
		rest := names[i+1:]
		if len(rest) == 0 {
			return Flag{Why: "git takes its settings from there"}, true
		}
		if slices.Contains(gitData, rest[0]) && !isBorrowing(rest) && form != beneath.Link && form != beneath.Special {
			return Flag{Why: "what git keeps", Git: true}, true
		}
		return Flag{Why: gitRuns}, true
	}
	return Flag{}, false
}

// InGit reports whether a path, other than a link, is git's directory or in it.
func InGit(p string) bool {
	_, ok := gitFlag(strings.ToLower(p), beneath.File)
	return ok
}

// isBorrowing reports whether a path in git's directory says where git borrows objects.
func isBorrowing(rest []string) bool {
	return len(rest) > 2 && rest[0] == "objects" && rest[1] == "info"
}

// Repositories are directories that git takes for its own, as far as they were seen.
type Repositories map[string]bool

// Note remembers a directory that git takes for a repository because of its contents on
// either side. names are the sandbox's. A name that cannot be looked at counts as present.
func (r Repositories) Note(at string, host *beneath.Dir, names []string) {
	has := func(name string) bool {
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return true
		}
		_, there, err := host.Stat(name)
		return there || err != nil
	}
	// With a commondir, objects and references are there, and its HEAD is not needed.
	if has("objects") && (has("HEAD") || has("refs")) || has("commondir") && has("HEAD") {
		r[at] = true
	}
}

// isObeyed reports whether a change is of a file that git obeys in such a directory, or replaces the
// directory itself by something else.
func (r Repositories) isObeyed(c Case) bool {
	if len(r) == 0 {
		return false
	}
	if r[c.Path] && c.Old.Form != beneath.Nothing && c.New.Form != beneath.Nothing && c.Old.Form != c.New.Form {
		return true
	}
	for at := c.Path; at != ""; {
		if at = path.Dir(at); at == "." {
			at = ""
		}
		if r[at] && isGitSetting(strings.TrimPrefix(c.Path[len(at):], "/"), c.New.Form) {
			return true
		}
	}
	return false
}

// Flags returns the reasons why a change may make something run on the host later.
func (r Repositories) Flags(c Case) []Flag {
	if r.isObeyed(c) {
		return []Flag{{Why: gitRuns}}
	}
	return flagsOf(c)
}

// isGitSetting reports whether git obeys a path in its directory. A new directory is still empty,
// so it does not count.
func isGitSetting(rel string, form beneath.Form) bool {
	rest := strings.Split(strings.ToLower(rel), "/")
	if form == beneath.Directory && len(rest) == 1 {
		return false
	}
	if form == beneath.Link && slices.Contains(gitData, rest[0]) {
		return true
	}
	return isBorrowing(rest) || slices.ContainsFunc(gitSettings, func(p string) bool { return matchAll([]string{p}, rest[:1]) })
}
