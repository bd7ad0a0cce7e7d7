package examples

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tour runs a script as a person would, in a fresh directory, and returns its output. The script must
// leave nothing behind.
func tour(t *testing.T, script string) (string, error) {
	t.Helper()
	project, tmp := t.TempDir(), t.TempDir()
	cmd := exec.Command("sh", script)
	cmd.Dir = project
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "PWD="+project)
	out, err := cmd.CombinedOutput()
	home, herr := os.UserHomeDir()
	if herr != nil {
		t.Fatal(herr)
	}
	for _, pattern := range []string{project + "/*", project + "/.*", tmp + "/*", home + "/.bothy-tour*"} {
		left, _ := filepath.Glob(pattern)
		for _, name := range left {
			if base := filepath.Base(name); base != "." && base != ".." && !strings.HasPrefix(base, "go-build") {
				t.Errorf("left behind: %s", name)
			}
		}
	}
	return string(out), err
}

// TestTourCanFail checks that the tour fails if it does not use a sandbox. Package test checks that the
// tour passes.
func TestTourCanFail(t *testing.T) {
	text, err := os.ReadFile("tour.sh")
	if err != nil {
		t.Fatal(err)
	}
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	// A server that answers, as it would outside of a sandbox.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	bare := strings.NewReplacer(
		`"$tmp/bothy" run --rm shell . -- sh`, `sh`,
		`$(cd "$(dirname "$0")/.." && pwd -P)`, source,
		"git://1.1.1.1/x", "git://127.0.0.1:"+port+"/x", "/dev/tcp/1.1.1.1/443", "/dev/tcp/127.0.0.1/"+port,
	).Replace(string(text))
	script := filepath.Join(t.TempDir(), "tour.sh")
	if err := os.WriteFile(script, []byte(bare), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := tour(t, script)
	if err == nil {
		t.Errorf("the tour praises the host itself:\n%s", out)
	}
	for _, fact := range []string{"kernel", "home", "way out"} {
		if !strings.Contains(out, "BAD  "+fact) {
			t.Errorf("the tour does not notice that %q is wrong:\n%s", fact, out)
		}
	}
}

// TestSandboxRalph runs the one-line script with a fake bothy that only prints its arguments.
func TestSandboxRalph(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "bothy"), []byte("#!/bin/sh\nprintf '%s|' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ralph := func(until string, args ...string) (string, error) {
		cmd := exec.Command("sh", append([]string{"sandbox-ralph.sh"}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "UNTIL="+until)
		out, err := cmd.Output()
		return string(out), err
	}
	said, err := ralph("make test", "app", "50", "codex")
	if want := "loop|run|-t|host|--workspace|review|--until|make test|--max-iterations|50|--agent|codex|-f|app/PROMPT.md|app|"; err != nil || said != want {
		t.Errorf("it asks for %s, %v", said, err)
	}
	if said, err := ralph("true", "."); err != nil || !strings.Contains(said, "|30|--agent|claude-code|-f|./PROMPT.md|.|") {
		t.Errorf("without more it asks for %s, %v", said, err)
	}
	if _, err := ralph("", "."); err == nil {
		t.Error("without a command it goes on")
	}
}

// TestLooplia runs the script with Looplia's words and a fake bothy that only prints its arguments.
func TestLooplia(t *testing.T) {
	bin, home := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "bothy"), []byte("#!/bin/sh\nprintf '%s|' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(home, ".looplia", "sandbox")
	if err := os.Mkdir(filepath.Dir(place), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(home+"/state/runs", place); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string // empty: refused
	}{
		{[]string{"run", "kit", "--file", "./my article.md"}, "flow|run|--rm|--into|" + home + "/.looplia/sandbox|--agent|claude|--file|./my article.md|" + home + "/.looplia/workflows/kit.md|"},
		{[]string{"run", "kit", "--sandbox-id", "kit-2026-01-12-ab3f"}, "flow|resume|--|kit-2026-01-12-ab3f|"},
		{[]string{"build", "--mock $(id)"}, "flow|build|--into|" + home + "/.looplia/sandbox|--agent|claude|--|--mock $(id)|"},
		{[]string{"run", "kit"}, ""},
		{[]string{"run", "kit", "--file"}, ""},
		{[]string{"build"}, ""},
		{nil, ""},
	} {
		cmd := exec.Command("sh", append([]string{"-e", "looplia"}, c.args...)...)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, "BOTHY_HOME=" + home + "/state"}
		said, err := cmd.Output()
		if (err != nil) != (c.want == "") || string(said) != c.want {
			t.Errorf("%q asks for %s, %v", c.args, said, err)
		}
	}
	if _, err := os.Lstat(place); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was a link to all runs: %v", err)
	}
}
