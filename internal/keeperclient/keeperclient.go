// Package keeperclient is the host's side of a conversation with the keeper of a sandbox: it finds the keeper,
// waits for it within bounds, asks it, brings changes to it, and kills one that hangs.
package keeperclient

import (
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Keepers reaches the keepers of one state directory.
type Keepers struct {
	Store *store.Store
	// Say tells the user of a wait, or of a finding.
	Say func(format string, args ...any)
}

// Polls of a state that another process changes.
const (
	LockPoll   = 5 * time.Millisecond
	waitNotice = 5 * time.Second // then a person at a terminal wants to know
)

// StartTimeout bounds the start of a sandbox, and the wait for one that another process starts.
const StartTimeout = 60 * time.Second

// Patiently tells the user the reason for a long wait, unless done is called before.
func (k Keepers) Patiently(format string, args ...any) (done func()) {
	notice := time.AfterFunc(waitNotice, func() { k.Say(format, args...) })
	return func() { notice.Stop() }
}

// ErrRemoved is the error for a sandbox that was removed while a caller works with it.
func ErrRemoved(sb *spec.Sandbox) error {
	return spec.Errorf(spec.ErrNotFound, "sandbox %s was removed", sb.Name)
}

// OpError is the error of an operation on a sandbox. If the sandbox was removed meanwhile, OpError
// reports that, and not the file that was missed first.
func (k Keepers) OpError(op string, sb *spec.Sandbox, err error) error {
	if !k.Store.Has(sb.ID) {
		err = ErrRemoved(sb)
	}
	return &spec.Error{Op: op, Err: err}
}
