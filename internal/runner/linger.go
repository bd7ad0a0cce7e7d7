package runner

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/spec"
)

// lingerError says that an agent was stopped because it reported its end and did not exit.
type lingerError struct{ after time.Duration }

func (l *lingerError) Error() string {
	return fmt.Sprintf("it did not exit within %s, and was ended", l.after)
}

// linger waits for the exit of an agent that has reported its end. Further output restarts the
// wait: some agents have more to tell, and some continue after all.
type linger struct {
	ended  func() bool // it has reported its end, and has not continued since
	after  time.Duration
	giveUp *time.Timer
}

// newLinger closes enough when it has waited for long enough.
func newLinger(after time.Duration, ended func() bool, enough chan struct{}) *linger {
	l := &linger{ended: ended, after: after}
	l.giveUp = time.AfterFunc(after, sync.OnceFunc(func() { close(enough) }))
	l.giveUp.Stop()
	return l
}

// Write restarts or stops the wait. It is called after the output was parsed.
func (l *linger) Write(b []byte) (int, error) {
	l.giveUp.Stop()
	if l.ended() {
		l.giveUp.Reset(l.after)
	}
	return len(b), nil
}

// shortened returns the reason why running work was stopped early, or nil if it ended by itself.
func shortened(err error) error {
	if cut, ok := errors.AsType[*headless.CutShort](err); ok {
		return cut
	}
	if quiet, ok := errors.AsType[*idleError](err); ok {
		return quiet
	}
	if stays, ok := errors.AsType[*lingerError](err); ok {
		return stays
	}
	return nil
}

// goesOn reports whether an event of this kind means that the agent has not ended yet.
func goesOn(kind string) bool {
	switch kind {
	case spec.TalkStart, spec.TalkMessage, spec.TalkThinking, spec.TalkToolCall, spec.TalkToolResult:
		return true
	}
	return false
}
