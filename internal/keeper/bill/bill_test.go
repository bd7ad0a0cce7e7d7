package bill

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestBillUnwritten checks that a sandbox with a budget cannot call models while its bill cannot
// be written. The user who stops the sandbox is told.
func TestBillUnwritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	synctest.Test(t, func(t *testing.T) {
		b, err := Open(store.Sandbox{Dir: dir}.Bill(), nil, spec.Budget{Tokens: 1 << 30}, slog.New(slog.DiscardHandler))
		must(t, err)
		ask := func() error {
			tally, err := b.counter.Open(meter.Question{})
			if err == nil {
				tally.End(40, 40, true)
			}
			synctest.Wait()
			return err
		}
		must(t, ask()) // the failed write is not known yet
		if err := ask(); err == nil {
			t.Error("what models take is not kept, and they are asked")
		}
		must(t, os.Mkdir(dir, 0o700))
		_ = ask() // triggers another try
		must(t, ask())
		must(t, os.RemoveAll(dir))
		must(t, ask())
		if err := b.Close(); err == nil {
			t.Error("nobody is told that it is not kept")
		}
	})
}
