package test

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestTerminalLearn checks that policy learn asks about each proposal, and that only a clear yes is
// a yes.
func TestTerminalLearn(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		l.bothy("create", "--name", "box", "shell", ".")
		l.bothy("exec", "box", "sh", "-c", "for n in a b c; do getent ahosts $n.example; done; true")
		tm := openTerminal(t)
		tm.start(l.command("policy", "learn", "box"))
		tm.expect("allow a.example:443?")
		tm.press("n\r")
		tm.expect("allow b.example:443?")
		tm.press("y\r")
		tm.expect("allow c.example:443?")
		tm.press("\r")
		if code := tm.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		rules := l.bothy("policy", "ls", "--sandbox", "box")
		if !strings.Contains(rules, "b.example:443") || strings.Contains(rules, "a.example") || strings.Contains(rules, "c.example") {
			t.Errorf("the rules are\n%s", rules)
		}
	})
}
