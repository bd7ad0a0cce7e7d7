package test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// withSSH sets up SSH for a person, with a sandbox called shell-app, and returns an ssh that reads their
// configuration. OpenSSH looks for that in the home directory of the account.
func withSSH(t *testing.T, l *lodging) (ssh func(args ...string) *exec.Cmd) {
	t.Helper()
	home := filepath.Join(filepath.Dir(l.proj), "home")
	shims := filepath.Join(filepath.Dir(l.proj), "shims")
	must(t, os.Mkdir(shims, 0o755))
	for _, name := range []string{"ssh", "scp", "sftp"} {
		text := "#!/bin/sh\nexec /usr/bin/" + name + " -F " + home + "/.ssh/config \"$@\"\n"
		must(t, os.WriteFile(filepath.Join(shims, name), []byte(text), 0o755))
	}
	for i, kv := range l.env {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			l.env[i] = "PATH=" + shims + ":" + list
		}
	}
	l.bothy("setup", "ssh")
	l.bothy("create", "--name", "shell-app", "shell", ".")
	return func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(shims, "ssh"), args...)
		cmd.Dir, cmd.Env = l.proj, l.env
		return cmd
	}
}

// TestSSHTerminal checks that a terminal by SSH follows the size of ours, passes keys and signals, and that
// nothing but the program's output is on it.
func TestSSHTerminal(t *testing.T) {
	terminalTest(t, func(t *testing.T, l *lodging) {
		ssh := withSSH(t, l)
		for name, cmd := range map[string]*exec.Cmd{
			"ssh":        ssh("-t", "shell-app.bothy", script),
			"exec --raw": l.command("exec", "--raw", "shell-app", "sh", "-c", script),
		} {
			t.Run(name, func(t *testing.T) {
				tm := openTerminal(t)
				before := tm.settings()
				tm.resize(33, 101)
				tm.start(cmd)
				tm.expect("33 101\r")
				tm.expect("armed-2")
				tm.resize(40, 90)
				tm.expect("40 90\r")
				tm.press("\x1c\x1c\x03") // the keys that detach are the program's
				tm.expect("interrupted")
				tm.press("typed\r")
				tm.expect("read typed")
				if code := tm.code(); code != 7 {
					t.Errorf("exit code %d", code)
				}
				if i := strings.IndexByte(tm.shown(), 0x1b); i >= 0 {
					t.Errorf("more than the program's output: %q", tm.shown()[i:])
				}
				if tm.settings() != before {
					t.Error("the terminal has other settings")
				}
			})
		}
		tm := openTerminal(t)
		tm.start(ssh("shell-app.bothy"))
		tm.press("cd; echo $0-$((1+1)); exit 4\r")
		tm.expect("-(ba|da)?sh-2\r")
		if code := tm.code(); code != 4 {
			t.Errorf("exit code of a login shell %d", code)
		}
	})
}

const script = `trap "stty size" WINCH; trap "" QUIT; trap "echo interrupted; read -r line; echo \"read \$line\"; exit 7" INT
stty size; echo armed-$((1+1)); while :; do sleep 0.1; done`

// TestEditorsPage runs the commands of the page about editors and SSH, one after the other.
func TestEditorsPage(t *testing.T) {
	needWall(t)
	for _, name := range []string{"ssh", "rsync", "python3"} {
		if _, err := exec.LookPath(name); err != nil {
			harness.Missing(t, "no %s here", name)
		}
	}
	text, err := os.ReadFile("../docs/guide/editors.md")
	if err != nil {
		t.Skip("no pages here") // a caller may be started without them
	}
	l := newLodging(t)
	ssh := withSSH(t, l)
	l.bothy("exec", "-d", "shell-app", "python3", "-m", "http.server", "8000")
	harness.WaitFor(t, patience, "the server inside", func() bool {
		return ssh("-W", "localhost:8000", "shell-app.bothy").Run() == nil
	})
	ran := 0
	for _, block := range strings.Split(string(text), "```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			ran++
			if strings.HasPrefix(line, "ssh -N ") {
				forwards(t, l, line)
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			cmd := exec.CommandContext(ctx, "sh", "-c", strings.Replace(line, "ssh -t ", "ssh -tt ", 1)) // the page is read at a terminal
			cmd.Dir, cmd.Env = l.proj, l.env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			cancel()
		}
	}
	if ran < 20 {
		t.Errorf("the page has %d commands", ran)
	}
	if text, _ := os.ReadFile(filepath.Join(l.proj, "copy.txt")); string(text) != "hello\n" {
		t.Errorf("the copied file has %q", text)
	}
}

// forwards checks that a command listens on the port that it names, on another port of this machine.
func forwards(t *testing.T, l *lodging, line string) {
	t.Helper()
	probe, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	port := strconv.Itoa(probe.Addr().(*net.TCPAddr).Port)
	must(t, probe.Close())
	line = strings.NewReplacer("8123:", port+":", " 1080 ", " "+port+" ").Replace(line)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+line)
	cmd.Dir, cmd.Env = l.proj, l.env
	var said bytes.Buffer
	cmd.Stderr = &said
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp4", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v\n%s", line, err, &said)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
