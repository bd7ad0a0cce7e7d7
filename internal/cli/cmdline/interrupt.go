package cmdline

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/spec"
)

// Interruptible returns a context that is canceled on a signal to end, so that the command cleans
// up. Its cause is the command's result.
func Interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	sigs := make(chan os.Signal, 1)
	console.Notify(sigs, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go func() {
		select {
		case s := <-sigs:
			cancel(&spec.Exited{Code: spec.ExitSignal + int(s.(unix.Signal))})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(sigs); cancel(nil) }
}
