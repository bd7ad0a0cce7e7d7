package shop

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/inside"
	"github.com/bothy-dev/bothy/spec"
)

// lingers is why an agent was ended that had said how it ended, and did not exit.
type lingers struct{ after time.Duration }

func (l *lingers) Error() string {
	return fmt.Sprintf("it did not exit within %s, and was ended", l.after)
}

// linger waits for an agent to exit that has said how it ended. What it prints then has it
// wait anew: some have more to tell, and some go on after all.
type linger struct {
	ended  func() bool // it has said so, and has done nothing since
	after  time.Duration
	giveUp *time.Timer
}

// newLinger has enough be closed when it has waited for long enough.
func newLinger(after time.Duration, ended func() bool, enough chan struct{}) *linger {
	l := &linger{ended: ended, after: after}
	l.giveUp = time.AfterFunc(after, sync.OnceFunc(func() { close(enough) }))
	l.giveUp.Stop()
	return l
}

// Write hears that the agent prints, when that was read.
func (l *linger) Write(b []byte) (int, error) {
	l.giveUp.Stop()
	if l.ended() {
		l.giveUp.Reset(l.after)
	}
	return len(b), nil
}

// shortened is why work was ended that had begun, if not by itself; nil if it was not.
func shortened(err error) error {
	if cut, ok := errors.AsType[*inside.CutShort](err); ok {
		return cut
	}
	if quiet, ok := errors.AsType[*silence](err); ok {
		return quiet
	}
	if stays, ok := errors.AsType[*lingers](err); ok {
		return stays
	}
	return nil
}

// goesOn tells whether an agent that says or does this has not ended yet.
func goesOn(kind string) bool {
	switch kind {
	case spec.TalkStart, spec.TalkMessage, spec.TalkThinking, spec.TalkToolCall, spec.TalkToolResult:
		return true
	}
	return false
}
