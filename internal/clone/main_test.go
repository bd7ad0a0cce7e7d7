package clone

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// person is a user with a repository.
type person struct {
	t       *testing.T
	dir     string // of the repository
	scratch string
	marker  string // made by every program that ought not to run
}

// newPerson makes a repository with a commit. It skips the test if git is missing.
func newPerson(t *testing.T) *person {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	p := &person{t: t, dir: filepath.Join(base, "proj: with \"signs"), scratch: base, marker: filepath.Join(base, "marker")}
	must(t, os.Mkdir(p.dir, 0o755))
	p.git("init", "-q", "-b", "main", ".")
	p.write("a.txt", "one\n")
	p.write("src/b.txt", "two\n")
	p.write(".gitignore", "*.key\n")
	p.commit("first")
	return p
}

func (p *person) write(name, text string) {
	p.t.Helper()
	writeIn(p.t, p.dir, name, text)
}

func writeIn(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(text), 0o644))
}

func (p *person) commit(message string) string {
	p.t.Helper()
	return commitIn(p.t, p.dir, message)
}

func commitIn(t *testing.T, dir, message string) string {
	t.Helper()
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-q", "--allow-empty", "-m", message)
	return gitIn(t, dir, "rev-parse", "HEAD")
}

func (p *person) git(args ...string) string { p.t.Helper(); return gitIn(p.t, p.dir, args...) }

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, args...)
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

func tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_ALLOW_PROTOCOL=file",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// clone makes a clone of the repository.
func (p *person) clone() Clone { p.t.Helper(); return p.cloneOf(p.dir) }

func (p *person) cloneOf(dir string) Clone {
	p.t.Helper()
	c := Clone{Mount: spec.Mount{Source: dir, Target: dir}, Dir: filepath.Join(p.scratch, "state")}
	must(p.t, os.RemoveAll(c.Dir))
	_, err := Make(context.Background(), new(hostpath.Guard), dir, c.Dir)
	must(p.t, err)
	return c
}

// inside runs programs as a sandbox would, without one.
func (c Clone) inside(stdin, stdout *os.File, args ...string) (func() error, error) {
	for i, a := range args {
		if a == c.Target {
			args[i] = c.Tree()
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout = stdin, stdout
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return cmd.Wait, nil
}

// order returns an order for everything of a sandbox called box.
func order(branches ...string) Order {
	return Order{Paths: new(hostpath.Guard), Sandbox: "box", Branches: branches, MaxBytes: 1 << 30}
}

func (p *person) fetch(c Clone, o Order) *Report {
	p.t.Helper()
	r, err := c.Fetch(context.Background(), c.inside, o)
	must(p.t, err)
	return r
}

// results returns the result of each branch.
func results(r *Report) map[string]string {
	m := map[string]string{}
	for _, b := range r.Branches {
		m[b.Branch] = b.Result
	}
	return m
}

// plant adds every way by which a repository's own files can make git run a program.
func (p *person) plant(dir, gitDir string) {
	p.t.Helper()
	script := filepath.Join(p.scratch, "trap")
	must(p.t, os.WriteFile(script, []byte("#!/bin/sh\ntouch '"+p.marker+"'\ncat\n"), 0o755))
	for _, hook := range []string{
		"pre-commit", "post-checkout", "post-merge", "reference-transaction", "post-index-change", "pre-auto-gc",
		"post-rewrite", "pre-receive", "update", "post-receive", "fsmonitor-watchman", "sendemail-validate",
	} {
		writeIn(p.t, gitDir, "hooks/"+hook, "#!/bin/sh\ntouch '"+p.marker+"'\n")
		must(p.t, os.Chmod(filepath.Join(gitDir, "hooks", hook), 0o755))
	}
	writeIn(p.t, gitDir, "more", "[core]\n\tfsmonitor = "+script+"\n\tsshCommand = "+script+"\n")
	f, err := os.OpenFile(filepath.Join(gitDir, "config"), os.O_APPEND|os.O_WRONLY, 0)
	must(p.t, err)
	_, err = f.WriteString(strings.ReplaceAll(`
[include]
	path = more
[core]
	fsmonitor = TRAP
	pager = TRAP
	editor = TRAP
	askPass = TRAP
	gitProxy = TRAP
	sshCommand = TRAP
	alternateRefsCommand = TRAP
	hooksPath = hooks
[filter "evil"]
	clean = TRAP
	smudge = TRAP
	process = TRAP
	required = true
[diff "evil"]
	command = TRAP
	textconv = TRAP
[uploadpack]
	packObjectsHook = TRAP
[gpg]
	program = TRAP
[credential]
	helper = !TRAP
[protocol]
	allow = always
[remote "evil"]
	url = ext::TRAP
	uploadpack = TRAP
	promisor = true
	partialclonefilter = blob:none
[trace2]
	eventTarget = TRAP
`, "TRAP", script))
	must(p.t, errors.Join(err, f.Close()))
	writeIn(p.t, dir, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
	writeIn(p.t, gitDir, "info/attributes", "* filter=evil diff=evil\n")
}

func (p *person) quiet(what string) {
	p.t.Helper()
	if _, err := os.Lstat(p.marker); err == nil {
		p.t.Errorf("%s ran a program of the repository's", what)
	}
}
