//go:build linux

package program

import (
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/bothy-dev/bothy/spec"
)

// Running is the path at which a process finds its own program.
const Running = "/proc/self/exe"

// Installed is the installation of Bothy that a foreign program uses.
type Installed struct {
	installation
	// FromPath says that the installation was found by PATH. Its programs may be in a directory that a
	// sandbox writes to.
	FromPath bool
	// Unproven says why it is not known whether the programs are of the build that this program was
	// compiled with; empty if they are.
	Unproven string
}

// Bothy returns the path of the bothy command.
func (i *Installed) Bothy() string { return i.program }

// foreign is the installation that this process uses; nil if the running program is one of Bothy's own.
var foreign *Installed

// Self returns the path of the program that runs Bothy's helper processes: the running program, or in a
// foreign program the bothy that [UseInstalled] found.
func Self() (string, error) {
	mu.Lock()
	defer mu.Unlock()
	if foreign == nil {
		return Running, nil
	}
	return foreign.program, found[Bothy].checkUnchanged()
}

// UseInstalled makes this process, which runs a foreign program, start the programs of an installation. It
// looks for bothy in dir. If dir is empty, it looks in the directories of PATH, and then beside the
// running program and in ../libexec/bothy. All calls in one process must lead to the same installation.
//
// The programs speak a private protocol with the packages that the foreign program links. So UseInstalled
// rejects a bothy of another version than that of the module in the foreign program. If one of the two
// does not say its version, the installation is Unproven, and the caller decides.
func UseInstalled(dir string) (*Installed, error) {
	mu.Lock()
	defer mu.Unlock()
	if foreign != nil && dir == "" {
		return foreign, found[Bothy].checkUnchanged()
	}
	self, err := executable()
	if err != nil {
		return nil, err
	}
	path, fromPath, err := findBothy(dir, self)
	if err != nil {
		return nil, err
	}
	if foreign != nil {
		if foreign.program != path {
			return nil, spec.Errorf(spec.ErrConflict, "this process uses the programs of %s already, and cannot use those of %s, too", foreign.program, path)
		}
		return foreign, found[Bothy].checkUnchanged()
	}
	var info *debug.BuildInfo
	unproven := ""
	if _, err := remember(Bothy, path, func() (err error) {
		if info, err = readBuild(path); err != nil {
			return err
		}
		mine, _ := debug.ReadBuildInfo()
		unproven, err = compare(mine, info, path)
		return err
	}); err != nil {
		delete(found, Bothy)
		return nil, err
	}
	foreign = &Installed{installation: installation{path, func() string { return buildID(info) }}, FromPath: fromPath, Unproven: unproven}
	return foreign, nil
}

// findBothy returns the bothy command that a foreign program uses.
func findBothy(dir, self string) (path string, fromPath bool, err error) {
	beside := installation{program: self}.places()
	if dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return "", false, err
		}
		path, err = findIn([]string{dir}, Bothy, self)
		if err == nil && path == "" {
			err = missing(Bothy, dir)
		}
		return path, false, err
	}
	var inPath []string
	for _, place := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(place) { // a relative one could be in a project
			inPath = append(inPath, place)
		}
	}
	if path, err = findIn(inPath, Bothy, self); err != nil || path != "" {
		return path, true, err
	}
	if path, err = findIn(beside, Bothy, self); err == nil && path == "" {
		err = missing(Bothy, append([]string{"a directory of PATH"}, beside...)...)
	}
	return path, false, err
}

// compare compares the build of a foreign program with that of a bothy. It rejects another version, and
// says if a version is not known.
func compare(mine, theirs *debug.BuildInfo, path string) (unproven string, err error) {
	if theirs.Main.Path != module {
		return "", spec.Errorf(spec.ErrSandbox, "%s is not Bothy's: its module is %s", path, theirs.Main.Path).WithHint(reinstall)
	}
	linked, proven := linkedModule(mine)
	installed := version(theirs)
	switch {
	case mine != nil && mine.Main.Path == module && linked.Version == installed:
		return "", nil // as for Bothy's own programs, even if no version was recorded
	case !proven:
		return "this program does not record the version of " + module + " that it was built with", nil
	case installed == devel:
		return path + " does not record its version", nil
	case linked.Sum != "" && theirs.Main.Sum != "" && linked.Sum != theirs.Main.Sum && linked.Version == installed:
		return "", spec.Errorf(spec.ErrSandbox, "%s has other contents than the %s %s that this program was built with", path, module, installed).WithHint(reinstall)
	case linked.Version != installed:
		return "", spec.Errorf(spec.ErrSandbox, "%s is of another build than this program: %s, not %s", path, installed, linked.Version).
			WithHint("install that version: CGO_ENABLED=0 go install %s/cmd/...@%s; or build this program with the installed one: go get %s@%s", module, linked.Version, module, installed)
	}
	return "", nil
}
