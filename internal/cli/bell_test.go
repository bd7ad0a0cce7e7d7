package cli

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/settings"
)

// earshot records the rings.
type earshot struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (e *earshot) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.b.Write(p)
}

func (e *earshot) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.b.String()
}

func TestBell(t *testing.T) {
	var ear earshot
	b := newBell(settings.BellDesktop, "claude-app", &ear)
	b.after = 20 * time.Millisecond
	rings := func(want int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); strings.Count(ear.text(), "claude-app") < want && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		if got := strings.Count(ear.text(), "claude-app"); got != want {
			t.Fatalf("it rang %d times, not %d: %q", got, want, ear.text())
		}
	}
	rings(0) // no output yet
	fmt.Fprint(b, "working")
	rings(1)
	fmt.Fprint(b, "the screen is redrawn")
	rings(1) // no key was typed
	b.noteKeys([]byte(focusOut))
	fmt.Fprint(b, "looked away from")
	rings(1)
	b.noteKeys([]byte("x"))
	rings(1) // no output since the key
	fmt.Fprint(b, "working")
	rings(2)
	b.noteKeys(nil)
	b.after = time.Hour
	fmt.Fprint(b, "working")
	b.silence()
	b.silent()
	rings(2)
	if newBell(settings.BellOff, "x", &ear) != nil {
		t.Error("a bell that is off")
	}
	var none *bell
	none.noteKeys(nil)
	none.silence()
}
