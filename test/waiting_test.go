package test

import (
	"strings"
	"testing"
	"time"
)

// ls tells which agents wait for a person: those that say nothing at their
// terminal. Nobody has to look at it.
func TestTerminalWaiting(t *testing.T) {
	terminalTest(t, func(t *testing.T, l *lodging) {
		tm := openTerminal(t)
		tm.start(l.command("run", "--name", "box", "shell", "."))
		tm.press("while sleep 0.2; do echo at work; done\r")
		tm.expect("at work\r\nat work")
		comes := func(want string) {
			t.Helper()
			for deadline := time.Now().Add(patience); !strings.Contains(l.bothy("ls"), want); time.Sleep(100 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%q does not come:\n%s", want, l.bothy("ls"))
				}
			}
		}
		time.Sleep(6 * time.Second)
		comes("running")
		tm.press("\x03")
		comes("waiting ")
		if doc := l.bothy("ls", "--json"); !strings.Contains(doc, `"status": "running"`) || strings.Contains(doc, `"waiting_since": null`) {
			t.Error(doc)
		}
		tm.press("echo back; exit\r")
		if code := tm.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		comes("running")
	})
}
