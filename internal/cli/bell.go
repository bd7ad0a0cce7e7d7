package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/settings"
)

// bellPause is how long an agent must print nothing before it counts as waiting for a person. A
// working agent redraws something all the time.
const bellPause = 5 * time.Second

// bell rings once when a busy program falls silent, and not again before a key is typed. It sees all
// output of the program.
type bell struct {
	to    io.Writer
	ring  string
	after time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil: no output since the last key
	rung  bool
	over  bool
}

// newBell returns the bell of a kind, or nil for none. name is the sandbox's.
func newBell(kind, name string, to io.Writer) *bell {
	b := &bell{to: to, ring: "\a", after: bellPause}
	switch kind {
	case settings.BellTerminal:
	case settings.BellDesktop:
		b.ring += fmt.Sprintf("\x1b]777;notify;bothy;%s is waiting for you\x1b\\", name)
	default:
		return nil
	}
	return b
}

// Write takes the program's output.
func (b *bell) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.rung || b.over:
	case b.timer == nil:
		b.timer = time.AfterFunc(b.after, b.silent)
	default:
		b.timer.Reset(b.after)
	}
	return len(p), nil
}

func (b *bell) silent() {
	b.mu.Lock()
	rings := !b.rung && !b.over
	b.rung = b.rung || rings
	b.mu.Unlock()
	if rings { // a lock holder must not wait for the terminal
		_, _ = io.WriteString(b.to, b.ring)
	}
}

// Sent by terminals when their window gains or loses the focus.
const (
	focusIn  = "\x1b[I"
	focusOut = "\x1b[O"
)

// noteKeys takes keys, which show that the user is there. A change of focus does not count as a key.
func (b *bell) noteKeys(keys []byte) {
	if b == nil || string(keys) == focusIn || string(keys) == focusOut {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = false
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// silence silences the bell for good.
func (b *bell) silence() {
	if b == nil {
		return
	}
	b.noteKeys(nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
}
