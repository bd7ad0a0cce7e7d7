package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// authorityName is the file of a memory image with the sealed key of the certificate authority that
// the programs trust.
const authorityName = "authority"

// sealAuthority writes the authority that programs trust beside the image of their memory. If it
// cannot be sealed, sealAuthority tells the user and writes nothing.
func (s *Snapshots) sealAuthority(ctx context.Context, sb *spec.Sandbox, dir string, a *wire.Authority) {
	if err := s.trySeal(ctx, dir, a); err != nil {
		s.say("the key of the certificate authority of sandbox %s is not kept, and programs that go on from this checkpoint will not trust their connections where Bothy looks into them: %v", sb.Name, err)
	}
}

func (s *Snapshots) trySeal(ctx context.Context, dir string, a *wire.Authority) error {
	if a == nil {
		return errors.New("the sandbox did not tell it")
	}
	sealed, err := s.engine.Credentials().Values.Seal(ctx, authorityName, a.Key)
	if err != nil {
		return err
	}
	return store.WriteFile(filepath.Join(dir, authorityName), []byte(sealed))
}

// checkMemory refuses to save or use memory images if the sandbox's driver cannot. With fork, the programs
// of other sandboxes are to resume from the image.
func (s *Snapshots) checkMemory(sb *spec.Sandbox, fork bool) error {
	can, err := s.engine.Drivers.Find(sb.Driver)
	if err != nil {
		return err
	}
	return can.CheckMemory(sb.Driver, fork)
}

// openMemory opens the memory image of a checkpoint. It refuses an image from which programs cannot
// resume on this host. It asks for the authority at once, in the background: another process opens
// the key. If the authority cannot be had, the user is told.
func (s *Snapshots) openMemory(ctx context.Context, sb *spec.Sandbox, p checkpoint.Point, fork bool) (*engine.Memory, error) {
	if err := s.checkMemory(sb, fork); err != nil {
		return nil, err
	}
	dir := s.Checkpoints(sb).Memory(p)
	build, err := memoryBuild()
	if err != nil {
		return nil, err
	}
	m, err := keeper.OpenMemory(dir, build)
	if err != nil {
		return nil, err
	}
	if size, err := store.TreeSize(dir); err != nil || size != p.Memory {
		return nil, (&spec.Error{Op: "look at the memory of checkpoint " + p.Name, Err: errors.Join(err, errors.New("it is not whole"))}).
			WithHint("go back to the files alone: --files")
	}
	authority := sync.OnceValue(func() *wire.Authority {
		key, err := s.openAuthority(ctx, dir)
		if err != nil {
			if ctx.Err() == nil { // else the command has ended, and no program goes on
				s.say("programs that go on from checkpoint %s of %s do not trust their connections where Bothy looks into them, until they are started again: %v", p.Name, sb.Name, err)
			}
			return nil
		}
		return &wire.Authority{Certificate: m.Certificate, Key: key}
	})
	go authority()
	return &engine.Memory{Dir: dir, Authority: authority}, nil
}

func (s *Snapshots) openAuthority(ctx context.Context, dir string) (wire.Value, error) {
	sealed, err := os.ReadFile(filepath.Join(dir, authorityName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the key of their certificate authority was not kept")
	}
	if err != nil {
		return nil, err
	}
	return s.engine.Credentials().Values.Open(ctx, authorityName, string(sealed))
}

// memoryBuild returns the build with which a sandbox would resume from memory.
func memoryBuild() (string, error) {
	keeper, err := program.Find(program.Keeper)
	if err != nil {
		return "", err
	}
	guest, err := program.Find(program.Guest)
	if err != nil {
		return "", err
	}
	return driver.Build(keeper, guest)
}

// startedByOther reports whether a sandbox belongs to a keeper of another build than the keeper
// that is found now.
func startedByOther(pid int) (bool, error) {
	keeper, err := program.Find(program.Keeper)
	if err != nil {
		return false, err
	}
	return driver.OtherBuild(pid, keeper), nil
}
