package console

import (
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"
)

// Notify relays signals to a channel. If SIGHUP was ignored when the command began, it stays
// ignored: nohup asks for that.
func Notify(to chan<- os.Signal, signals ...os.Signal) {
	if signal.Ignored(unix.SIGHUP) {
		signals = slices.DeleteFunc(slices.Clone(signals), func(s os.Signal) bool { return s == unix.SIGHUP })
	}
	signal.Notify(to, signals...)
}
