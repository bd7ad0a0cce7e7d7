package machine

import (
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/build"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/hostroot"
)

// buildMounts lists the mounts over the root of a sandbox for steps of a build. Everything else,
// including the home and /tmp, is in the root layer, because it is the step's result.
func (b *Builder) buildMounts(scratch string) ([]driver.Mount, error) {
	list := []driver.Mount{{Target: hostroot.SharedMemory, Memory: true, Mode: 0o1777, Size: b.Launch.Memory / 4}}
	for _, m := range []struct{ source, target string }{
		{b.Spec.Build.Program, build.ProgramPath}, {b.Spec.Build.Context, build.ContextPath},
	} {
		if m.source == "" {
			continue
		}
		source, err := b.pinSource(m.source, filepath.Join(scratch, "mnt", filepath.Base(m.target)))
		if err != nil {
			return nil, err
		}
		list = append(list, driver.Mount{Source: source, Target: m.target, ReadOnly: true, Exclusive: true})
	}
	return list, nil
}
