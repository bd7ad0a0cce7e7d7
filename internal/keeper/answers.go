package keeper

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/keeper/machine"
	"github.com/bothy-dev/bothy/spec"
)

// hungTime is how long a shared host directory may stay silent before the keeper gives up on
// it. A save cannot be made meanwhile: it waits for programs that wait for the directory.
const hungTime = 10 * time.Second

// answersPoll is how often a save checks that shared directories answer.
const answersPoll = 2 * time.Second

// checkAnswers returns an error if a mount that is shared with the host does not answer for [hungTime].
func checkAnswers(mounts []driver.Mount) error {
	for _, m := range mounts {
		if machine.SharedWithHost(m) && hostpath.AnswersWithin(m.Source, hungTime) != nil {
			return spec.Errorf(spec.ErrSandbox, "the directory that is shared as %s does not answer: its file system seems to hang", m.Target).
				WithHint("bring its server back, or unmount it on the host")
		}
	}
	return nil
}

// whileAnswering runs a function whose context ends when a shared mount does not answer for [hungTime].
func whileAnswering(ctx context.Context, mounts []driver.Mount, do func(context.Context) error) error {
	if err := checkAnswers(mounts); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(answersPoll):
			}
			if err := checkAnswers(mounts); err != nil {
				cancel(err)
			}
		}
	}()
	err := do(ctx)
	if why := context.Cause(ctx); err != nil && why != nil {
		return why
	}
	return err
}

// takeDown ends the wall. That looks at the mounts, so the keeper first unmounts directories
// shared with the host: a process that looks at a hung file system does not end.
func (k *Keeper) takeDown() {
	for _, m := range k.built.Mounts {
		if machine.SharedWithHost(m) && strings.HasPrefix(m.Source, k.dir.Scratch()+"/") {
			_ = unix.Unmount(m.Source, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // in the keeper's own namespace
		}
	}
	k.wall.Destroy()
}

// bounded runs a function that may hang in a shared directory, and waits at most limit for it.
func bounded(limit time.Duration, do func()) {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(limit):
	}
}
