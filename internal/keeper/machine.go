package keeper

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/keeper/machine"
	"github.com/bothy-dev/bothy/internal/keeper/worktrees"
	"github.com/bothy-dev/bothy/spec"
)

// machine assembles the parts that the wall is built from.
func (k *Keeper) machine() (driver.Machine, error) {
	b := machine.New(machine.Options{
		Spec: k.spec, Dir: k.dir, Layers: k.layers, Launch: &k.launch, Limits: k.disk, CheckLayer: k.crashed, Event: k.writeEvent,
	})
	k.account = machine.Account(&k.launch)
	mounts, err := b.Mounts()
	if err != nil {
		return driver.Machine{}, err
	}
	k.places = machine.Places(mounts)
	if k.spec.Build == nil { // it searches while the rest is assembled
		k.worktrees = worktrees.Search(mounts, k.places, k.log, k.writeEvent)
	}
	built, err := b.Build(mounts)
	if err != nil {
		return driver.Machine{}, err
	}
	k.attach, k.trust, k.javaServed = built.Attach, built.Trust, built.Java
	k.status.Note(func(st *spec.Status) { st.Gaps = built.Gaps })
	m := built.Machine
	if k.memory == nil {
		return m, nil
	}
	if err := k.memory.installed(k.launch); err != nil {
		return m, err
	}
	return m, k.memory.fitMachine(&m, k.launch.GoOn)
}

// attached waits until init has attached everything. No program may run inside before: it would see, and
// might use, the files that the mounts cover.
func (k *Keeper) attached(ctx context.Context) error {
	if len(k.attach) == 0 && !k.spec.Docker { // init listens at Docker's socket before it says a word
		return nil
	}
	greeting, err := k.link.Greeting(ctx)
	if err != nil {
		return err
	}
	n := greeting.Attached
	switch {
	case n == len(k.attach):
		return nil
	case n < 0 || n > len(k.attach):
		return spec.Errorf(spec.ErrSandbox, "init says that it attached %d of %d mounts", n, len(k.attach))
	}
	target := k.attach[n].Target
	return spec.Errorf(spec.ErrConflict, "the mount point %s changed while the sandbox started: %w", target, unix.Errno(greeting.Errno)).
		WithHint("a program, perhaps in another sandbox, is changing the directories above it; end it, and start the sandbox again")
}
