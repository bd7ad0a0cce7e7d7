package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// laborious works until it is interrupted, and then asks its person.
const laborious = `#!/bin/sh
trap 'stop=yes' INT
while [ -z "$stop" ]; do echo at work; sleep 0.2; done
printf 'what next?'
read answer
`

// TestTerminalWaiting checks that ls shows which agents wait for a person: those without new output
// at their terminal. No terminal needs to be attached.
func TestTerminalWaiting(t *testing.T) {
	harness.AsUser(t)
	terminalTest(t, func(t *testing.T, l *lodging) {
		worker := filepath.Join(l.proj, "worker")
		if err := os.WriteFile(worker, []byte(laborious), 0o755); err != nil {
			t.Fatal(err)
		}
		config := filepath.Join(l.proj, "..", "home", ".config", "bothy", "config.yaml")
		if err := os.WriteFile(config, []byte("bell: desktop\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		tm := openTerminal(t)
		tm.start(l.command("run", "--name", "box", "./worker", "."))
		tm.expect(regexp.QuoteMeta("\x1b[22;2t\x1b]2;box\a"))
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
		tm.expect("what next?")
		comes("waiting ")
		tm.expect(regexp.QuoteMeta("\a\x1b]777;notify;bothy;box is waiting for you\x1b\\"))
		if doc := l.bothy("ls", "--json"); !strings.Contains(doc, `"status": "running"`) || strings.Contains(doc, `"waiting_since": null`) {
			t.Error(doc)
		}
		tm.press("end\r")
		if code := tm.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		tm.expect(regexp.QuoteMeta("\x1b[23;2t") + "$") // the title of before
		comes("running")
	})
}
