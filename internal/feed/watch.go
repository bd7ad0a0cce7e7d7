package feed

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
)

// pollEvery is how often the logs are looked at while anything waits for them. It sees appends by any process,
// on any file system.
const pollEvery = 200 * time.Millisecond

// Watch tells any number of streams of one process that some log has changed. It looks at the logs once for all
// of them, and only while one waits.
type Watch struct {
	Store *store.Store

	mu      sync.Mutex
	waiting int
	changed chan struct{} // closed at the next change
	running bool
	seen    map[string]look
}

// look is a log at one moment.
type look struct {
	size int64
	made time.Time
}

// Changed returns a channel that is closed at the next change, and a function to call when it is not needed any
// more. A reader gets the channel before it reads, so that it misses no change.
func (w *Watch) Changed() (<-chan struct{}, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	w.waiting++
	if !w.running {
		w.running = true
		w.seen = w.lookAround()
		go w.pollLogs()
	}
	var once sync.Once
	return w.changed, func() {
		once.Do(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.waiting--
		})
	}
}

// pollLogs looks for changes until nothing waits.
func (w *Watch) pollLogs() {
	for {
		time.Sleep(pollEvery)
		now := w.lookAround()
		w.mu.Lock()
		if w.waiting == 0 {
			w.running = false
			w.mu.Unlock()
			return
		}
		if !sameLook(w.seen, now) {
			w.seen = now
			close(w.changed)
			w.changed = make(chan struct{})
		}
		w.mu.Unlock()
	}
}

func (w *Watch) lookAround() map[string]look {
	found := map[string]look{}
	entries, _ := os.ReadDir(w.Store.Sandboxes())
	for _, e := range entries {
		if !store.IsID(e.Name()) {
			continue
		}
		l := look{}
		if info, err := os.Stat(w.Store.Sandbox(e.Name()).Log("events.jsonl")); err == nil {
			l = look{info.Size(), info.ModTime()}
		}
		found[e.Name()] = l
	}
	return found
}

func sameLook(a, b map[string]look) bool {
	if len(a) != len(b) {
		return false
	}
	for id, l := range a {
		if other, ok := b[id]; !ok || other != l {
			return false
		}
	}
	return true
}

// Follow calls fn with the events of a stream, as they come, until ctx ends or fn returns an error. It returns
// the error of fn, or nil at the end of ctx. fn gets no events after each tick: a sign of life.
func Follow(ctx context.Context, w *Watch, f *Feed, tick time.Duration, fn func([]Event) error) error {
	alive := time.NewTicker(tick)
	defer alive.Stop()
	for {
		changed, done := w.Changed()
		for {
			list, more, err := f.Next()
			if err == nil && len(list) > 0 {
				err = fn(list)
			}
			if err != nil || ctx.Err() != nil {
				done()
				return err
			}
			if !more {
				break
			}
		}
		for waiting := true; waiting; {
			var err error
			select {
			case <-ctx.Done():
				done()
				return nil
			case <-changed:
				waiting = false
			case <-alive.C:
				err = fn(nil)
			}
			if err != nil {
				done()
				return err
			}
		}
		done()
	}
}
