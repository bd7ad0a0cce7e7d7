package keeper

import (
	"sync"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// life counts the commands that the sandbox serves, until something ends it.
type life struct {
	sandbox string // its name
	used    func() // notes that the sandbox is in use

	// starts are programs being started: it grows with mu held, and not once stopping is set.
	starts sync.WaitGroup
	asked  chan struct{} // closed when the sandbox is to stop; not if it falls

	mu       sync.Mutex // guards all below
	active   int        // commands being served
	stopping bool       // nothing is admitted any more
	how      ending
}

// ending is how the sandbox ends.
type ending struct {
	reason  string
	verdict error         // why it is stopped for its own misbehaviour
	grace   time.Duration // for programs inside to end
	discard bool          // save nothing
}

func newLife(sandbox string, used func()) *life {
	return &life{sandbox: sandbox, used: used, asked: make(chan struct{})}
}

// beginCommand admits a command; endCommand dismisses it.
func (l *life) beginCommand() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping {
		return l.tooLate()
	}
	l.active++
	l.used()
	return nil
}

// beginProgram is beginCommand for a command that starts a program. The sandbox does not stop until started
// is called. So a stop either sees the started program, or prevents its start.
func (l *life) beginProgram() (started func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping {
		return nil, l.tooLate()
	}
	l.active++
	l.used()
	l.starts.Add(1)
	return sync.OnceFunc(l.starts.Done), nil
}

// awaitStarts returns when no start is under way, or when none can succeed soon: fallen is closed when
// the wall falls.
func (l *life) awaitStarts(fallen <-chan struct{}) {
	done := make(chan struct{})
	go func() { l.starts.Wait(); close(done) }()
	select {
	case <-done:
	case <-fallen:
	case <-time.After(hangTime):
	}
}

func (l *life) endCommand() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active--
	l.used()
}

// isServing reports whether a command is being served.
func (l *life) isServing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.active > 0
}

func (l *life) tooLate() error {
	return spec.Errorf(spec.ErrStopping, "sandbox %s is stopping", l.sandbox).WithHint("try again in a moment")
}

// stopSandbox asks the sandbox to end. Only the first request counts.
func (l *life) stopSandbox(reason string, grace time.Duration) {
	if grace <= 0 {
		grace = stopGrace
	}
	l.askToStop(reason, grace, nil)
}

// askToStop is stopSandbox with a verdict: callers that wait for a program are told it.
func (l *life) askToStop(reason string, grace time.Duration, verdict error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping {
		return
	}
	l.stopping = true
	l.how.reason, l.how.grace, l.how.verdict = reason, grace, verdict
	close(l.asked)
}

// discardSandbox asks the sandbox to end at once, and saves nothing.
func (l *life) discardSandbox(reason string) {
	l.mu.Lock()
	l.how.discard = true
	l.mu.Unlock()
	l.stopSandbox(reason, time.Millisecond)
}

// noteFall notes that the sandbox ended without a request.
func (l *life) noteFall(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopping {
		l.stopping, l.how.reason = true, reason
	}
}

// ending returns how the sandbox ends. A later discardSandbox may still discard.
func (l *life) ending() ending {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.how
}
