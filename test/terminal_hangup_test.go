package test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// departures are the ways in which a terminal, or the bothy at it, goes away without detaching.
var departures = map[string]func(*terminal){
	"terminal closed": func(tm *terminal) { tm.Line.Close(); tm.Emulator.Close() },
	"SIGHUP":          func(tm *terminal) { _ = tm.cmd.Process.Signal(syscall.SIGHUP) },
	"SIGTERM":         func(tm *terminal) { _ = tm.cmd.Process.Signal(syscall.SIGTERM) },
	"SIGKILL":         func(tm *terminal) { _ = tm.cmd.Process.Kill() },
}

// TestTerminalHangUp checks that a program at a terminal, of exec or of run with a command, is hung up
// when its terminal goes away, as over ssh. After the detach keys it continues.
func TestTerminalHangUp(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		const program = `trap 'echo hung up > "$0"; exit' HUP; echo waits-$((1+1)); while :; do sleep 0.1; done`
		l.bothy("create", "shell", ".")
		for kind, command := range map[string][]string{
			"exec": {"exec", "-it", "shell-proj"}, "run": {"run", "shell", ".", "--"},
		} {
			for how, depart := range departures {
				name := strings.ReplaceAll(kind+" "+how, " ", "-")
				tm := l.terminal(append(command, "sh", "-c", program, name)...)
				tm.expect("waits-2")
				depart(tm)
				tm.code()
				waitFor(t, name+": the program to be hung up", func() bool {
					b, _ := os.ReadFile(filepath.Join(l.proj, name))
					return string(b) == "hung up\n"
				})
			}
		}

		tm := l.terminal("exec", "-it", "shell-proj", "sh", "-c", program, "detached")
		tm.expect("waits-2")
		tm.press(detachKeys)
		tm.expect("detached")
		tm.code()
		l.bothy("exec", "shell-proj", "pkill", "-HUP", "-f", "waits.*detached")
		waitFor(t, "the program to be there still", func() bool {
			_, err := os.Stat(filepath.Join(l.proj, "detached"))
			return err == nil
		})
	})
}

// TestTerminalOutlived checks that the shell of run, and an agent, outlive their terminal, however
// it goes away.
func TestTerminalOutlived(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		tm := l.terminal("run", "shell", ".")
		pid := tm.ask("echo $$")
		for how, depart := range departures {
			depart(tm)
			tm.code()
			tm = l.terminal("run", "shell", ".")
			if got := tm.ask("echo $$"); got != pid {
				t.Errorf("%s: another shell, %s, not %s", how, got, pid)
			}
		}
	})
}
