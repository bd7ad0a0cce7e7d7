package clone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

// git runs the host's git in a git directory of ours.
type git struct {
	program string
	path    string // the PATH that it has
	dir     string // the git directory
	tree    string // its files, if it has any
	borrow  string // a directory with more objects; empty: none
	bounded bool   // its input comes from a sandbox
}

// findGit finds the host's git.
func findGit(paths *hostpath.Guard) (string, error) {
	path, err := paths.Program("git")
	if errors.Is(err, spec.ErrDenied) {
		return "", err
	}
	if err != nil {
		return "", spec.Errorf(spec.ErrUsage, "git, which makes clones, is not on this host: %w", err).
			WithHint("install git, or use --workspace %s", spec.WorkspaceReview)
	}
	return path, nil
}

// Limits of git where it works on a sandbox's data.
const (
	maxMemory  = 2 << 30
	maxCPU     = 30 * 60 // seconds
	fileWindow = "256m"  // of packs that are mapped at once
)

// environment returns git's whole environment. It has none of the user's settings, which may name
// programs, and git cannot ask a server for missing objects.
func (g *git) environment() []string {
	env := []string{
		"PATH=" + g.path, "HOME=/nonexistent", "LC_ALL=C",
		"GIT_DIR=" + g.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_ATTR_NOSYSTEM=1", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_ALLOW_PROTOCOL=none",
		"GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "GIT_ADVICE=0",
	}
	if g.tree != "" {
		env = append(env, "GIT_WORK_TREE="+g.tree)
	}
	if g.borrow != "" {
		env = append(env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+quoteValue(g.borrow))
	}
	return env
}

// settings precede every command. The configuration, which is ours, names no programs; these
// settings turn off the default ones.
var settings = []string{
	"--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.attributesFile=/dev/null",
	"-c", "core.excludesFile=/dev/null", "-c", "core.protectHFS=true", "-c", "core.protectNTFS=true",
	"-c", "core.packedGitLimit=" + fileWindow, "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "submodule.recurse=false",
}

func (g *git) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.program, append(append([]string{}, settings...), args...)...)
	cmd.Env, cmd.Dir = g.environment(), g.dir
	if g.tree != "" {
		cmd.Dir = g.tree
	}
	return cmd
}

// runGit runs a git command, and returns its output.
func (g *git) runGit(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := g.stream(ctx, in, &out, args...)
	return out.Bytes(), err
}

// runWithLines is runGit with lines as its input.
func (g *git) runWithLines(ctx context.Context, list []string, args ...string) ([]byte, error) {
	return g.runGit(ctx, strings.NewReader(strings.Join(list, "\n")+"\n"), args...)
}

// stream is runGit for long input or output. Its limits apply before git reads the first byte.
func (g *git) stream(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	cmd := g.command(ctx, args...)
	var said tail
	cmd.Stdout, cmd.Stderr = out, &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	if g.bounded {
		err = boundProcess(cmd.Process.Pid)
	}
	var fed error
	if err == nil && in != nil {
		_, fed = io.Copy(stdin, in)
		if errors.Is(fed, unix.EPIPE) {
			fed = nil // git says why it does not listen
		}
	}
	_ = stdin.Close()
	if err != nil || fed != nil {
		_ = cmd.Process.Kill()
	}
	ended := cmd.Wait()
	switch {
	case err != nil:
		return err
	case fed != nil:
		return fed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ended != nil:
		return &gitError{args[0], ended, said.String()}
	}
	return nil
}

func boundProcess(pid int) error {
	for what, most := range map[int]uint64{unix.RLIMIT_DATA: maxMemory, unix.RLIMIT_CPU: maxCPU, unix.RLIMIT_CORE: 0} {
		if err := unix.Prlimit(pid, what, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("bound git: %w", err)
		}
	}
	return nil
}

// gitError is a failed git command with its message.
type gitError struct {
	command string
	err     error
	said    string
}

func (e *gitError) Error() string {
	text := "git " + e.command + ": " + e.err.Error()
	if e.said != "" {
		text += ": " + e.said
	}
	return text
}

func (e *gitError) Unwrap() error { return e.err }

// tail keeps the end of its input.
type tail struct{ text []byte }

// maxSaid bounds how many bytes of git's messages are shown.
const maxSaid = 600

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if n := len(t.text) - maxSaid; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(t.text), "?")), " ")
}

// makeGitDir makes a git directory of ours.
func makeGitDir(dir string, format string, more string) error {
	for _, d := range []string{"objects/pack", "objects/info", "refs/heads", "refs/tags", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			return err
		}
	}
	version := 0
	if format != "" {
		version = 1
	}
	text := "[core]\n\trepositoryformatversion = " + strconv.Itoa(version) + "\n\tfilemode = true\n\tlogallrefupdates = true\n"
	if format != "" {
		text += "[extensions]\n\tobjectformat = " + format + "\n"
	}
	for name, content := range map[string]string{"config": text + more, "HEAD": "ref: " + heads + "nothing\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// formatOf returns the configuration's object format for names like this one.
func formatOf(hash string) string {
	if len(hash) == 64 {
		return "sha256"
	}
	return ""
}
