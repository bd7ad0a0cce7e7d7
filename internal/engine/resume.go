package engine

import (
	"context"
	"time"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Memory is an image of the memory of programs, from which a sandbox resumes instead of booting.
type Memory struct {
	Dir string
	// Authority returns the certificate authority that the programs trust, or nil if it cannot be
	// had. It may ask the user for a passphrase, and returns the same each time.
	Authority func() *wire.Authority
}

// slowRead is how many bytes of a memory image are read in a second at least, if several images are
// read at once.
const slowRead = 16 << 20

// Resume starts a stopped sandbox whose programs resume from memory. The caller holds the sandbox's
// lock, and keeps the image until Resume returns.
func (e *Engine) Resume(ctx context.Context, sb *spec.Sandbox, lock *store.Lock, from *Memory) error {
	from.Authority() // it may wait for a person, which the limit below must not count
	size, err := store.TreeSize(from.Dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, keeperclient.StartTimeout+time.Duration(size/slowRead)*time.Second)
	defer cancel()
	c, err := e.startKeeper(ctx, sb, lock, from)
	if err != nil {
		return err
	}
	e.TellRunning(sb)
	return keeperclient.Order(ctx, sb, c, wire.Ask{Op: wire.OpUp})
}
