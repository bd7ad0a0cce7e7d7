package keeperclient

import (
	"context"
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// A keeper that does not answer is killed: one that is busy, with a large save
// for instance, still answers a ping, if only to say that it ends.
const (
	pingEvery  = 2 * time.Second
	pingFails  = 3
	killedTime = 20 * time.Second
)

// Watch kills a keeper that hangs, until the context ends. It returns an error if the keeper
// cannot be killed. If the sandbox has no keeper, another command has the lock: it starts the sandbox or
// restores its files, which may take any time.
func (k Keepers) Watch(ctx context.Context, sb *spec.Sandbox) error {
	d := k.Store.Sandbox(sb.ID)
	told := false
	for fails := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pingEvery):
		}
		fails++
		if isAlive(ctx, d) {
			fails = 0
		}
		if fails == pingFails-1 && IsAskable(d) {
			k.Say("sandbox %s does not answer; its keeper is killed if it stays so", sb.Name)
		}
		if fails < pingFails || !IsAskable(d) {
			continue
		}
		killed, err := killKeeper(d)
		if killed {
			return k.awaitKilled(ctx, sb)
		}
		if err != nil {
			return err
		}
		if !told {
			k.Say("another bothy is at work on sandbox %s; waiting for it", sb.Name)
		}
		told = true
	}
}

// awaitKilled returns an error if a keeper that was killed does not end: it hangs in a file system.
func (k Keepers) awaitKilled(ctx context.Context, sb *spec.Sandbox) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(killedTime):
		return spec.Errorf(spec.ErrSandbox, "its keeper was killed and does not end: it waits for a file system that does not answer").
			WithHint("see which one: bothy inspect %s names the directories; bring its server back, or unmount it", sb.Name)
	}
}

// IsAskable reports whether a keeper can be asked. A keeper that is starting has no socket yet, and the
// command that starts it watches it.
func IsAskable(d store.Sandbox) bool {
	_, control := os.Lstat(d.Control())
	_, aside := os.Lstat(d.Aside())
	return control == nil || aside == nil
}

// isAlive reports whether a keeper answers, wherever its socket is.
func isAlive(ctx context.Context, d store.Sandbox) bool {
	ctx, cancel := context.WithTimeout(ctx, pingEvery)
	defer cancel()
	if c, err := dialControl(d); err == nil {
		return Request(ctx, c, wire.Ask{Op: wire.OpPing}) == nil
	}
	c, err := dialAt(d, d.Aside())
	if err != nil {
		return false
	}
	_ = c.Close() // a keeper that ends sends its hello, and takes no requests
	return true
}
