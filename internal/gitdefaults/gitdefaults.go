// Package gitdefaults collects the settings of the host's user that git inside needs: the author, the
// files never to commit, and how commits are signed. It asks the person's own git, in the directory that
// is worked on, so that includeIf counts.
//
// A sandbox may have written the repository in that directory. So no setting of the repository's own
// configuration is taken, and git is only asked to read configuration: that runs no hook, alias, filter
// or other program. Settings that name a program are not taken from the person's configuration either.
package gitdefaults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
)

// Person has the git settings of the host's user.
type Person struct {
	Name, Email string
	Ignore      []byte // patterns of files never to commit
	Signing     Signing
	// Left lists the settings that were not taken, with reasons.
	Left []string
}

// Bounds of the questions and the answers.
const (
	askTime    = 2 * time.Second
	maxAnswer  = 256 << 10
	maxMemory  = 256 << 20
	maxCPU     = 2 // seconds
	maxValue   = 500
	maxIgnore  = 64 << 10
	maxKeyFile = 16 << 10
)

// keys are the settings that are asked for.
const keys = `^(user\.(name|email|signingkey)|core\.excludesfile|gpg\.format|(commit|tag)\.gpgsign)$`

// Ask asks the host's git. Without git the result is nil.
func Ask(ctx context.Context, paths *hostpath.Guard, home, dir string) (*Person, error) {
	a := &asker{paths: paths, home: home}
	out, err := a.runGit(ctx, dir)
	if err != nil && ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) && dir != "/" {
		// The error may be in the repository's own configuration, which anyone who works there may have
		// written.
		out, err = a.runGit(ctx, "/")
	}
	if err != nil {
		return nil, err
	}
	return a.person(parseSettings(out)), nil
}

// asker asks on behalf of one person.
type asker struct {
	paths *hostpath.Guard
	home  string
}

// passed are the variables that tell where the person's configuration is.
var passed = []string{"XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"}

// runGit returns git's answer in a directory.
func (a *asker) runGit(ctx context.Context, dir string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd, err := a.paths.Command(ctx, "git", "--no-pager", "config", "--includes", "--show-scope", "--show-origin", "--null", "--get-regexp", keys)
	if err != nil {
		return nil, err
	}
	cmd.Dir, cmd.WaitDelay = dir, askTime
	cmd.Env = []string{"PATH=" + a.paths.Path(), "HOME=" + a.home, "PWD=" + dir, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0"}
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	var out bounded
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// A configuration written inside can include files endlessly.
	for what, most := range map[int]uint64{unix.RLIMIT_DATA: maxMemory, unix.RLIMIT_CPU: maxCPU, unix.RLIMIT_CORE: 0} {
		_ = unix.Prlimit(cmd.Process.Pid, what, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
	err = cmd.Wait()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 1 && out.text.Len() == 0 {
		return nil, nil // no such setting
	}
	return out.text.Bytes(), err
}

// bounded stores at most maxAnswer bytes.
type bounded struct{ text bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxAnswer {
		return 0, errors.New("git says too much")
	}
	return b.text.Write(p)
}

// setting is one setting of the person.
type setting struct{ origin, value string }

// parseSettings keeps the last value of each setting in the person's files or the system's, not in the
// repository's.
func parseSettings(out []byte) map[string]setting {
	list := map[string]setting{}
	words := strings.Split(string(out), "\x00")
	for ; len(words) >= 3; words = words[3:] {
		scope, origin := words[0], words[1]
		key, value, set := strings.Cut(words[2], "\n")
		if scope != "global" && scope != "system" {
			continue
		}
		if !set { // a key without a value is true
			value = "true"
		}
		list[key] = setting{strings.TrimPrefix(origin, "file:"), value}
	}
	return list
}

// person reads the settings.
func (a *asker) person(list map[string]setting) *Person {
	p := &Person{}
	take := func(key, what string) string {
		s, ok := list[key]
		if ok && !isClean(s.value) {
			noteLeft(&p.Left, "%s: it has control characters in it, or is longer than %d bytes", what, maxValue)
			return ""
		}
		return s.value
	}
	p.Name, p.Email = take("user.name", "your name in git"), take("user.email", "your address in git")
	p.Ignore = a.ignored(list, p)
	a.signing(list, p)
	return p
}

func noteLeft(left *[]string, format string, args ...any) {
	*left = append(*left, fmt.Sprintf(format, args...))
}

// isClean accepts one line of text.
func isClean(s string) bool {
	return len(s) <= maxValue && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// ignored returns the content of the person's list of files never to commit.
func (a *asker) ignored(list map[string]setting, p *Person) []byte {
	const what = "what you ignore in git (core.excludesFile)"
	s, set := list["core.excludesfile"]
	path := filepath.Join(a.home, ".config/git/ignore")
	if xdg := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(xdg) {
		path = filepath.Join(xdg, "git/ignore")
	}
	if set {
		if s.value == "" {
			return nil
		}
		if path = a.namedPath(s, what, &p.Left); path == "" {
			return nil
		}
	}
	data, err := a.readFile(path, maxIgnore)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && bytes.IndexByte(data, 0) >= 0:
		err = errors.New("it is not text")
	}
	if err != nil {
		noteLeft(&p.Left, "%s: %v", what, err)
		return nil
	}
	return data
}

// namedPath returns the path that a setting names. A setting that a sandbox may have made is not followed:
// it could name any of the person's files.
func (a *asker) namedPath(s setting, what string, left *[]string) string {
	if a.paths.WrittenAt(s.origin) {
		noteLeft(left, "%s: a sandbox writes to %s, where it is set", what, s.origin)
		return ""
	}
	path := s.value
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(a.home, rest)
	}
	if !filepath.IsAbs(path) || !isClean(path) {
		noteLeft(left, "%s: %q is not a path from the root or from ~/", what, s.value)
		return ""
	}
	return path
}

// readFile reads a file that the person's configuration names. It follows no link that a sandbox may have
// made.
func (a *asker) readFile(path string, most int64) ([]byte, error) {
	if err := hostpath.Answers(path); err != nil {
		return nil, err
	}
	return a.paths.ReadFile(path, most)
}
