package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Bells a person can choose in the configuration.
const (
	bellOff      = "off"
	bellTerminal = "terminal" // the character BEL
	bellDesktop  = "desktop"  // that, and a notification by the terminal, if it has them (OSC 777)
)

// bellPause is how long an agent says nothing before it counts as waiting for
// a person. While agents work something moves all the time.
const bellPause = 5 * time.Second

// bell rings when a program that was at work falls silent: once, until a key
// was typed. What the program says goes through it.
type bell struct {
	to    io.Writer
	ring  string
	after time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil: nothing was said yet since the last key
	rung  bool
	over  bool
}

// newBell gives the bell of a kind; nil for none. The name is of a sandbox.
func newBell(kind, name string, to io.Writer) *bell {
	b := &bell{to: to, ring: "\a", after: bellPause}
	switch kind {
	case bellTerminal:
	case bellDesktop:
		b.ring += fmt.Sprintf("\x1b]777;notify;bothy;%s is waiting for you\x1b\\", name)
	default:
		return nil
	}
	return b
}

// Write hears what the program says.
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
	if rings { // who holds the lock must not wait for the terminal
		_, _ = io.WriteString(b.to, b.ring)
	}
}

// focus is what terminals say when their window is looked at, or not any more.
const (
	focusIn  = "\x1b[I"
	focusOut = "\x1b[O"
)

// typed is called for keys: somebody is there. Who looks away is not.
func (b *bell) typed(keys []byte) {
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

// end keeps it silent from now on.
func (b *bell) end() {
	if b == nil {
		return
	}
	b.typed(nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
}
