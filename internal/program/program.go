//go:build linux

package program

import (
	"debug/buildinfo"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/bothy-dev/bothy/spec"
)

// Names of the programs.
const (
	Bothy  = "bothy"        // the command line
	Keeper = "bothy-keeper" // owns a running sandbox: the keeper, the sentry and the gofer
	Guest  = "bothy-guest"  // runs inside: init, sudo and others
	Build  = "bothy-build"  // reads Dockerfiles
)

// libexec is the directory of a release with the programs that people do not call by name, next to the
// directory of bothy.
const libexec = "libexec/bothy"

// reinstall is the hint for programs that do not belong together.
const reinstall = "install all programs of one version: CGO_ENABLED=0 go install github.com/bothy-dev/bothy/cmd/...@latest, or in a clone: CGO_ENABLED=0 go install ./cmd/..."

// found holds the earlier results of Find, by name.
var (
	mu    sync.Mutex
	found = map[string]program{}
)

// program is a file in the state in which it was found.
type program struct {
	path string
	stat syscall.Stat_t
}

// Find returns the path of a program of Bothy: in the directory of the running one, or in libexec. It
// rejects a program of another build, and one whose file has changed since Find returned it before.
func Find(name string) (string, error) {
	mu.Lock()
	defer mu.Unlock()
	if before, ok := found[name]; ok {
		return before.path, before.checkUnchanged()
	}
	at, err := installationInUse()
	if err != nil {
		return "", err
	}
	path, err := findIn(at.places(), name, at.program)
	if err == nil && path == "" {
		err = missing(name, at.places()...)
	}
	if err != nil {
		return "", err
	}
	return remember(name, path, func() error { return checkBuild(path, at.build()) })
}

// remember records the state of a program's file, and checks the program. The caller holds mu.
func remember(name, path string, check func() error) (string, error) {
	p := program{path: path}
	if err := syscall.Stat(path, &p.stat); err != nil {
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	if err := check(); err != nil {
		return "", err
	}
	found[name] = p
	return path, p.checkUnchanged()
}

// installation is where the programs are that this process starts.
type installation struct {
	program string // the running program, or the bothy that a foreign program uses; without links
	build   func() string
}

// places returns the directories of the programs, in the order in which they are searched.
func (i installation) places() []string {
	beside := filepath.Dir(i.program)
	return []string{beside, filepath.Join(filepath.Dir(beside), libexec)}
}

// installationInUse returns the installation of this process. The caller holds mu.
func installationInUse() (installation, error) {
	switch {
	case foreign != nil:
		return foreign.installation, nil
	case isForeign.Load():
		return installation{}, errNone()
	}
	self, err := executable()
	return installation{self, own}, err
}

// checkUnchanged rejects a file that was replaced or written to since it was found.
func (p program) checkUnchanged() error {
	now, err := p.statNow()
	if err != nil {
		return err
	}
	if !p.sameFile(now) {
		return p.replaced()
	}
	return nil
}

// checkUntouched is checkUnchanged, and also rejects a file that changed in any other way: see Untouched.
func (p program) checkUntouched() error {
	now, err := p.statNow()
	if err == nil && (!p.sameFile(now) || now.Ctim != p.stat.Ctim) {
		err = p.replaced()
	}
	return err
}

// sameFile reports whether this is the file that was found, with the same contents as far as its size and
// time tell.
func (p program) sameFile(now syscall.Stat_t) bool {
	return now.Dev == p.stat.Dev && now.Ino == p.stat.Ino && now.Size == p.stat.Size && now.Mtim == p.stat.Mtim
}

// Untouched rejects a program that Find returned if its file changed since in any way, even by a link or
// by another mode. A writer can set back the modification time, but not the time of the last change of
// the inode. It is for a program in a directory that a sandbox writes to, such as the one that a loop
// works in for days.
func Untouched(name string) error {
	mu.Lock()
	defer mu.Unlock()
	return found[name].checkUntouched()
}

// statNow looks at the file. Its error does not wrap fs.ErrNotExist, which a caller would take for the absence
// of a file that it asks about itself.
func (p program) statNow() (now syscall.Stat_t, err error) {
	if err := syscall.Stat(p.path, &now); err != nil {
		return now, spec.Errorf(spec.ErrConflict, "%s, which this command has begun with, cannot be found: %v", p.path, err).WithHint(reinstall)
	}
	return now, nil
}

func (p program) replaced() error {
	if isForeign.Load() {
		return spec.Errorf(spec.ErrConflict, "%s was replaced since this process has looked at it", p.path).
			WithHint("call again when the installation is complete: the programs are then looked at anew")
	}
	return spec.Errorf(spec.ErrConflict, "%s was replaced since this command began", p.path).
		WithHint("run the command again; a loop or a flow goes on with resume")
}

// findIn returns the first program of that name in the directories, or "". It rejects a program that
// another user may have put there; self is the running program, or the bothy that belongs to it.
func findIn(places []string, name, self string) (string, error) {
	for _, dir := range places {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		if err := trusted(path, info, self); err != nil {
			return "", err
		}
		return path, nil
	}
	return "", nil
}

// missing returns the error for a program that was not found.
func missing(name string, places ...string) error {
	return spec.Errorf(spec.ErrSandbox, "the program %s is missing: it is not in %s", name, strings.Join(places, ", nor in ")).
		WithHint(reinstall)
}

// trusted rejects a program that another user may have put there: it must belong to root, to the caller,
// or to the owner of the running program, and others must not be able to write it.
func trusted(path string, info fs.FileInfo, self string) error {
	var own syscall.Stat_t
	if err := syscall.Stat(self, &own); err != nil {
		return fmt.Errorf("look at %s: %w", self, err)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if owner != 0 && owner != own.Uid && int(owner) != os.Geteuid() || info.Mode()&0o002 != 0 {
		return spec.Errorf(spec.ErrDenied, "%s belongs to user %d, or others may write it: it is not started", path, owner).
			WithHint("remove it if you did not put it there; " + reinstall)
	}
	return nil
}

// executable returns the path of the running program, without links.
func executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the program that runs: %w", err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path, nil
}

// checkBuild rejects a program of another build than the given one.
func checkBuild(path, build string) error {
	info, err := readBuild(path)
	if err != nil {
		return err
	}
	if theirs := buildID(info); theirs != build {
		return spec.Errorf(spec.ErrSandbox, "%s is of another build than the bothy that would start it: %s, not %s", path, theirs, build).
			WithHint(reinstall)
	}
	return nil
}

// readBuild returns the build information of a program.
func readBuild(path string) (*debug.BuildInfo, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, spec.Errorf(spec.ErrSandbox, "tell of which build %s is: %w", path, err).WithHint(reinstall)
	}
	return info, nil
}

// own is the build identifier of the running program.
var own = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return buildID(info)
})

// buildID returns an identifier of the build. All programs of one build have the same. So have two builds of
// one commit with different changes, which Go does not distinguish.
func buildID(info *debug.BuildInfo) string {
	words := []string{version(info), info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "-ldflags" || s.Key == "-tags" || s.Key == "CGO_ENABLED" {
			words = append(words, s.Key+"="+s.Value)
		}
	}
	return strings.Join(words, " ")
}
