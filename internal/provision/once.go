package provision

import (
	"fmt"
	"sync"
)

// onceWatcher passes each note on once: a plan that is made anew has most of its notes again.
type onceWatcher struct {
	Watcher
	mu   sync.Mutex
	told map[string]bool
}

// noteOnce returns a watcher that drops notes which were told already.
func noteOnce(w Watcher, told []string) *onceWatcher {
	o := &onceWatcher{Watcher: w, told: map[string]bool{}}
	for _, note := range told {
		o.told[note] = true
	}
	return o
}

// Note implements [Watcher].
func (o *onceWatcher) Note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	o.mu.Lock()
	known := o.told[note]
	o.told[note] = true
	o.mu.Unlock()
	if !known {
		o.Watcher.Note("%s", note)
	}
}
