package runner

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// TestEarly checks that a sandbox that was started ahead counts as a new one as long as its
// values, such as a credential, are new.
func TestEarly(t *testing.T) {
	sb, now := &spec.Sandbox{}, time.Now()
	e := &early{sandbox: sb, since: now, stopped: true}
	if !e.serves(sb, now.Add(59*time.Second)) || e.serves(sb, now.Add(61*time.Second)) || e.serves(&spec.Sandbox{}, now) || (&early{}).serves(sb, now) {
		t.Error("only it serves, and only while it is new")
	}
	if e.stopped = false; e.serves(sb, now) {
		t.Error("something may be at work in it")
	}
}
