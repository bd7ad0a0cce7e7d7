package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gvisor.dev/gvisor/pkg/state/statefile"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/sandbox"

	"github.com/bothy-dev/bothy/internal/driver"
)

// SaveMemory has the sentry write its whole state, which nobody but itself can read
// again.
func (w *wall) SaveMemory(ctx context.Context, dir string) error {
	err := w.save(ctx, func() error {
		// Resume: it goes on as if nothing had been, once whoever had it stand still
		// says so.
		return w.sandbox.Checkpoint(w.conf, w.c.ID, dir, sandbox.CheckpointOpts{
			Compression: statefile.CompressionLevelNone, Resume: true,
		})
	})
	if err == nil {
		err = driver.WriteBuild(dir)
	}
	if err == nil {
		err = protect(dir)
	}
	if err != nil {
		return fmt.Errorf("save the memory: %w", err)
	}
	return nil
}

// protect makes files the owner's alone.
func protect(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.Chmod(filepath.Join(dir, e.Name()), 0o600))
	}
	return errors.Join(errs...)
}

// goOn has programs go on from a memory image, in a sandbox that is created.
// Connections over the card are broken off by the sentry: it was told that its first
// self goes on, and has them.
func (w *wall) goOn(m driver.Machine) error {
	var network *boot.CreateLinksAndRoutesArgs
	if m.Network != nil {
		network = links(m.Network)
		network.IsRestore = true
	}
	if err := w.c.Restore(w.conf, m.Memory, false, false, network); err != nil {
		return fmt.Errorf("go on from memory: %w", startError(err))
	}
	return nil
}
