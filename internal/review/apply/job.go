package apply

import (
	"github.com/bothy-dev/bothy/internal/review"
)

// job is a command that changes the host or the layer.
type job struct{ *review.View }

// withJob opens a layer to change it, after it recovers from a command that was killed. A layer
// that was never mounted is empty.
func withJob(w review.Workspace, do func(*job) error) error {
	v, err := w.OpenView()
	if err != nil {
		return err
	}
	defer v.Close()
	l := &job{v}
	if l.Upper == nil {
		return nil
	}
	if err := l.recover(); err != nil {
		return err
	}
	return do(l)
}
