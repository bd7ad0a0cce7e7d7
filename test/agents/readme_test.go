package agents

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// readmePages are the pages whose commands are run, in this order.
var readmePages = []string{"README.md", "docs/guide/first-run.md"}

// chats is the conversation of the agent on these pages.
const chats = `
conversations:
  - match: .
    turns:
      - text: Hello.
`

// typed are commands of the pages that are run at a terminal: the screen that the person waits
// for, and the keys they type.
var typed = map[string]struct{ shows, keys string }{
	"bothy run shell .":  {"$ ", "exit\r"},
	"bothy run claude .": {"bypass permissions on", "\x1c\x1c"},
}

// TestReadme runs every command of the README and of the first page of the guide, from top to bottom, in
// one fresh home, and compares its output with the page. A command without output on the page must exit
// with 0.
func TestReadme(t *testing.T) {
	harness.AsUser(t)
	inWorld(t, claude, chats, func(t *testing.T, w *world) {
		if w.UID == 0 || w.UID != os.Getuid() {
			t.Skip("the page is an ordinary user's: run this test as one")
		}
		root, err := filepath.EvalSymlinks(filepath.Join("..", ".."))
		if err == nil {
			root, err = filepath.Abs(root)
		}
		if err == nil {
			err = os.Symlink(root, filepath.Join(w.Home, "bothy"))
		}
		if err != nil {
			t.Fatal(err)
		}
		sh := openShell(t, w, root)
		same := sameness(t, w, root)
		for _, page := range readmePages {
			for _, s := range steps(read(t, page)) {
				t.Logf("%s:%d: %s", page, s.line, s.command)
				got, code := sh.run(t, w, s.command)
				switch {
				case same(got) != same(s.output) && s.output != "":
					t.Fatalf("%s:%d: %s\nprints (and ends with %d)\n%s\nnot\n%s", page, s.line, s.command, code, got, s.output)
				case code != 0 && s.output == "":
					t.Fatalf("%s:%d: %s\nends with %d\n%s", page, s.line, s.command, code, got)
				}
			}
		}
		w.onlyProvider(t)
	})
}

// step is a command of a page, and the output below it.
type step struct {
	line            int
	command, output string
}

// steps returns the commands of a page's blocks that show a console.
func steps(page string) (list []step) {
	inside, n := false, 0
	for line := range strings.Lines(page) {
		n++
		command, is := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console\n"
		case !inside:
		case is:
			list = append(list, step{line: n, command: strings.TrimSuffix(command, "\n")})
		case len(list) > 0:
			list[len(list)-1].output += line
		}
	}
	return list
}

// shell is a shell that runs a page's commands, one after the other.
type shell struct {
	in  io.Writer
	out *bufio.Reader
}

// mark ends the output of a command.
const mark = "\x01ended with "

func openShell(t *testing.T, w *world, dir string) *shell {
	t.Helper()
	out, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "--norc")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, write, write
	cmd.Env = append(w.Environment(), "USER="+account(t), "LANG=C.UTF-8")
	for _, name := range []string{"GOPROXY", "GOCACHE", "GOMODCACHE", "GOFLAGS"} { // so that nothing is fetched or compiled twice
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(value)))
	}
	for i, v := range cmd.Env {
		if path, is := strings.CutPrefix(v, "PATH="); is {
			cmd.Env[i] = "PATH=" + path + ":" + goes(t)
		}
	}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		_ = out.Close()
	})
	return &shell{in, bufio.NewReader(out)}
}

// goes returns the directory of the program go.
func goes(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(path)
}

func account(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

// run returns the output and the exit code of a command.
func (sh *shell) run(t *testing.T, w *world, command string) (string, int) {
	t.Helper()
	bare := strings.TrimSpace(regexp.MustCompile(`\s#.*`).ReplaceAllString(command, ""))
	if at, is := typed[bare]; is {
		return "", sh.atTerminal(t, w, bare, at.shows, at.keys)
	}
	return sh.given(t, command)
}

func (sh *shell) given(t *testing.T, command string) (string, int) {
	t.Helper()
	if _, err := fmt.Fprintf(sh.in, "{ %s\n} </dev/null\necho '%s'$?\n", command, mark); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for {
		line, err := sh.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: the shell ended (%v) after\n%s%s", command, err, got.String(), line)
		}
		before, code, ended := strings.Cut(line, mark)
		got.WriteString(before)
		if ended {
			n, err := strconv.Atoi(strings.TrimSpace(code))
			if err != nil {
				t.Fatal(err)
			}
			return got.String(), n
		}
	}
}

// atTerminal has a person type when the expected text appears, in the shell's directory and with its
// variables.
func (sh *shell) atTerminal(t *testing.T, w *world, command, shows, keys string) int {
	t.Helper()
	said, _ := sh.given(t, `pwd; printf '%s\n' "$PATH"`)
	dir, path, _ := strings.Cut(strings.TrimSpace(said), "\n")
	tm := harness.OpenTerminal(t, 40, 120)
	cmd := exec.CommandContext(t.Context(), "bash", "--norc", "-c", command)
	cmd.Dir, cmd.Env = dir, append(w.Environment(), "PATH="+path)
	tm.Start(t, cmd)
	tm.Shows(t, patience, shows)
	if _, err := tm.Emulator.WriteString(keys); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// late matches the message that a sandbox is slow to start, on a slow and busy machine.
var late = regexp.MustCompile(`(?m)^bothy: sandbox \S+ does not answer yet; .*\n`)

// sameness returns a function that removes from a text everything that depends on the machine, the
// person or the moment.
func sameness(t *testing.T, w *world, root string) func(string) string {
	t.Helper()
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer(root, "/home/tourer/bothy", w.Home, "/home/tourer", account(t), "tourer",
		strings.TrimSpace(string(kernel)), "KERNEL", "6.18.44-fc-v657", "KERNEL")
	kinds := []struct{ found, word string }{
		{`\bghp_\w+`, "TOKEN"},
		{`\b[0-9a-f]{12}\b`, "ID"},
		{`\d{4}-\d\d-\d\d-[0-9a-f]{4}\b`, "RUN"},
		{`\b(\d+m)?\d+(\.\d+)?s\b`, "TIME"},
		{`\d+(\.\d+)?`, "N"},
		{`[ \t]+`, " "},
		{`(?m) $`, ""},
	}
	return func(text string) string {
		text = names.Replace(late.ReplaceAllString(text, ""))
		for _, k := range kinds {
			text = regexp.MustCompile(k.found).ReplaceAllString(text, k.word)
		}
		return strings.TrimRight(text, "\n")
	}
}
