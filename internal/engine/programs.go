package engine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/keeper"
	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/program"
)

// programs are the paths of the programs that a sandbox runs on.
type programs struct{ bothy, keeper, guest string }

func findPrograms() (p programs, err error) {
	if p.bothy, err = program.Self(); err != nil {
		return p, err
	}
	if p.keeper, err = program.Find(program.Keeper); err != nil {
		return p, err
	}
	p.guest, err = program.Find(program.Guest)
	return p, err
}

// openBothy opens the file of the program that runs helpers, for a keeper that will run it.
func (p programs) openBothy() (*os.File, error) {
	fd, err := unix.Open(p.bothy, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the program that runs helpers: %w", err)
	}
	return os.NewFile(uintptr(fd), p.bothy), nil
}

// checkUntouched refuses programs that have changed since this command began, and that a sandbox may
// have written.
func (p programs) checkUntouched(paths func() (*hostpath.Guard, error)) error {
	for name, path := range map[string]string{program.Bothy: p.bothy, program.Keeper: p.keeper, program.Guest: p.guest} {
		if path == program.Running { // no path leads to it
			continue
		}
		touched := program.Untouched(name)
		if touched == nil {
			continue
		}
		guard, err := paths()
		if err != nil {
			return err
		}
		if guard.WrittenAt(path) {
			return touched
		}
	}
	return nil
}

// buildID identifies the build of the programs: see [driver.Build].
func (p programs) buildID() (string, error) { return driver.Build(p.keeper, p.guest) }

// addTo tells the keeper about the programs of its build.
func (p programs) addTo(l *launch.Settings) (err error) {
	l.Bothy, l.Guest = fmt.Sprintf("/proc/self/fd/%d", keeper.BothyFD), p.guest
	l.Build, err = p.buildID()
	return err
}
