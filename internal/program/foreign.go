//go:build linux

package program

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/bothy-dev/bothy/spec"
)

// Running is the path at which a process finds its own program.
const Running = "/proc/self/exe"

// Installed is the installation of Bothy that a foreign program uses.
type Installed struct {
	installation
	// Named says that the caller named the directory. Otherwise the installation was searched for, and may
	// be in a directory that a sandbox writes to.
	Named bool
	// Changed says that this process has used these programs, and that one of them is another file now.
	Changed bool
	// Unproven says why it is not known whether the programs are of the build that this program was
	// compiled with; empty if they are.
	Unproven string
}

// Bothy returns the path of the bothy command.
func (i *Installed) Bothy() string { return i.program }

// Paths returns the paths of all programs of the installation that exist.
func (i *Installed) Paths() []string {
	list := []string{i.program}
	for _, name := range []string{Keeper, Guest, Build} {
		if path, err := findIn(i.places(), name, i.program); err == nil && path != "" { // Find returns the error
			list = append(list, path)
		}
	}
	return list
}

// foreign is the installation that this process uses. Nil if it has accepted none, or if the running
// program is one of Bothy's own.
var foreign *Installed

// isForeign says that the running program is none of Bothy's. It must never be started in the place of one.
var isForeign atomic.Bool

// choosing is held while an installation is chosen. While its caller decides, mu is not held: what the
// caller does may call Self, which then returns an error.
var choosing sync.Mutex

// errNone returns the error for a foreign program that has not accepted an installation yet.
func errNone() error {
	return spec.Errorf(spec.ErrSandbox, "this process has not accepted the programs of Bothy yet")
}

// Self returns the path of the program that runs Bothy's helper processes: the running program, or in a
// foreign program the bothy that [UseInstalled] found. It is an error before that bothy is accepted, and
// after any change of its file, until UseInstalled has accepted it again.
func Self() (string, error) {
	mu.Lock()
	defer mu.Unlock()
	switch {
	case !isForeign.Load():
		return Running, nil
	case foreign == nil:
		return "", errNone()
	}
	return foreign.program, found[Bothy].checkUntouched()
}

// UseInstalled makes this process, which runs a foreign program, start the programs of an installation. It
// looks for bothy in dir. If dir is empty, it looks in the directories of PATH, and then beside the
// running program and in ../libexec/bothy. All calls in one process must lead to the same installation.
//
// It asks accept at each call, and starts no new program before accept returns nil. An installation that
// was not accepted is forgotten. One whose files have changed since is judged like a new one.
//
// The programs speak a private protocol with the packages that the foreign program links. So UseInstalled
// rejects a bothy of another version than that of the module in the foreign program. If one of the two
// does not say its version, the installation is Unproven, and accept decides.
func UseInstalled(dir string, accept func(*Installed) error) (*Installed, error) {
	choosing.Lock()
	defer choosing.Unlock()
	isForeign.Store(true)
	self, err := executable()
	if err != nil {
		return nil, err
	}
	now, untouched := programsInUse()
	path := ""
	if now != nil && dir == "" {
		path, err = findIn([]string{filepath.Dir(now.program)}, filepath.Base(now.program), self)
	}
	if err == nil && path == "" {
		path, err = findBothy(dir, self)
	}
	switch {
	case err != nil:
		return nil, err
	case now != nil && now.program != path:
		return nil, spec.Errorf(spec.ErrConflict, "this process uses the programs of %s already, and cannot use those of %s, too", now.program, path).
			WithHint("restart this program to use others")
	case untouched:
		again := *now
		again.Named, again.Changed = dir != "", false
		if err := accept(&again); err != nil {
			return nil, err
		}
		return &again, nil
	}
	used, file, err := examine(path, self)
	if err != nil {
		return nil, err
	}
	used.Named, used.Changed = dir != "", now != nil
	if err := accept(used); err != nil {
		return nil, err
	}
	if err := file.checkUntouched(); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	foreign, found = used, map[string]program{Bothy: file} // Find looks at the others again
	return used, nil
}

// programsInUse returns the installation that this process has accepted, and whether all files of it that
// it has used are untouched.
func programsInUse() (now *Installed, untouched bool) {
	mu.Lock()
	defer mu.Unlock()
	if foreign == nil {
		return nil, false
	}
	for _, p := range found {
		if p.checkUntouched() != nil {
			return foreign, false
		}
	}
	return foreign, true
}

// examine checks a bothy, without starting it, and records the state of its file.
func examine(path, self string) (*Installed, program, error) {
	file := program{path: path}
	if err := syscall.Stat(path, &file.stat); err != nil {
		return nil, file, fmt.Errorf("look at %s: %w", path, err)
	}
	state, err := os.Stat(path)
	if err == nil {
		err = trusted(path, state, self)
	}
	if err != nil {
		return nil, file, err
	}
	info, err := readBuild(path)
	if err != nil {
		return nil, file, err
	}
	mine, _ := debug.ReadBuildInfo()
	unproven, err := compare(mine, info, path)
	if err != nil {
		return nil, file, err
	}
	build := buildID(info)
	return &Installed{installation: installation{path, func() string { return build }}, Unproven: unproven}, file, file.checkUntouched()
}

// findBothy returns the bothy command that a foreign program uses.
func findBothy(dir, self string) (path string, err error) {
	beside := installation{program: self}.places()
	if dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return "", err
		}
		path, err = findIn([]string{dir}, Bothy, self)
		if err == nil && path == "" {
			err = missing(Bothy, dir)
		}
		return path, err
	}
	var inPath []string
	for _, place := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(place) { // a relative one could be in a project
			inPath = append(inPath, place)
		}
	}
	if path, err = findIn(inPath, Bothy, self); err != nil || path != "" {
		return path, err
	}
	if path, err = findIn(beside, Bothy, self); err == nil && path == "" {
		err = missing(Bothy, append([]string{"a directory of PATH"}, beside...)...)
	}
	return path, err
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
		return "", spec.Errorf(spec.ErrSandbox, "%s has other contents than the %s %s that this program was built with", path, module, installed).
			WithHint("install it again, and build this program with it, from one source of modules; then restart this program")
	case linked.Version != installed:
		return "", spec.Errorf(spec.ErrSandbox, "%s is of another build than this program: %s, not %s", path, installed, linked.Version).
			WithHint("install that version: CGO_ENABLED=0 go install %s/cmd/...@%s; or build this program with the installed one: go get %s@%s; then restart it", module, linked.Version, module, installed)
	}
	return "", nil
}
