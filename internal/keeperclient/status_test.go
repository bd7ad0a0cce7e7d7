package keeperclient

import (
	"os"
	"testing"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestStatusLost checks that the lock outranks a lost or torn status.
func TestStatusLost(t *testing.T) {
	k, sb := newKeepers(t)
	d := k.Store.Sandbox(sb.ID)
	for _, tear := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(d.Status(), nil, 0o600) },
		func() error { return os.Remove(d.Status()) },
	} {
		must(t, tear())
		if got := k.Status(sb); got.State != spec.Stopped || got.Crashed {
			t.Errorf("nobody has it, and it is %+v", got)
		}
		lock, err := store.TryLock(d.Lock())
		must(t, err)
		if got := k.Status(sb); got.State != spec.Stopped || got.Crashed {
			t.Errorf("it starts for the first time, and is %+v", got)
		}
		must(t, os.WriteFile(d.Control(), nil, 0o600))
		if got := k.Status(sb); got.State != spec.Running {
			t.Errorf("it runs, and is %+v", got)
		}
		must(t, os.Remove(d.Control()))
		lock.Unlock()
	}
}
