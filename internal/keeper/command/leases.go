package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// placeholders returns the variables that show leases to programs inside.
func placeholders(leases []spec.Lease) []string {
	var env, names []string
	words := map[string][]string{}
	for _, l := range leases {
		for _, name := range l.Env {
			env = append(env, name+"="+l.Placeholder)
		}
		for _, s := range l.Settings {
			if s.Kind == spec.SettingVariable {
				names = append(names, s.Name)
				if text := l.Filled(s); !slices.Contains(words[s.Name], text) { // two leases may say the same
					words[s.Name] = append(words[s.Name], text)
				}
			}
		}
	}
	for _, name := range names { // repeated names are harmless
		env = append(env, name+"="+strings.Join(words[name], " "))
	}
	return env
}

// gitConfig returns configuration for git inside, as variables. Git also needs a variable with
// their number.
func gitConfig(leases []spec.Lease, anybodys bool) []string {
	var env []string
	n := 0
	tell := func(key, value string) {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
		n++
	}
	// Files have other inode numbers inside: without this, git reads every file again
	// whenever it changes sides.
	tell("core.checkStat", "minimal")
	// A worktree that is not shown inside still exists.
	tell("gc.worktreePruneExpire", "never")
	if anybodys { // root in an image works on the caller's files
		tell("safe.directory", "*")
	}
	for _, l := range leases {
		for _, s := range l.Settings {
			if s.Kind == spec.SettingGit {
				tell(s.Name, l.Filled(s))
			}
		}
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}
