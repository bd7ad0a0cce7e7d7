// Package program finds the programs that Bothy consists of, and refuses those of another build.
package program

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/spec"
)

// Names of the programs.
const (
	Bothy  = "bothy"        // the command line
	Keeper = "bothy-keeper" // owns a running sandbox: the keeper, the sentry and the gofer
	Guest  = "bothy-guest"  // runs inside: init, sudo and others
	Build  = "bothy-build"  // reads Dockerfiles
)

// GVisor is the version of gVisor that the keeper has.
const GVisor = "v0.0.0-20260905035102-160fafc42237"

// libexec is where a release has the programs that nobody calls by name, beside the directory
// of bothy.
const libexec = "libexec/bothy"

// reinstall is what to do about programs that do not belong together.
const reinstall = "install all programs of one version: go install github.com/bothy-dev/bothy/cmd/...@latest, or in a clone: go install ./cmd/..."

// Find gives the path of a program of Bothy: beside the one that runs, or in libexec. It refuses one
// of another build.
func Find(name string) (string, error) {
	self, err := executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Dir(self)
	places := []string{beside, filepath.Join(beside, "..", libexec)}
	if strings.HasSuffix(beside, "/"+libexec) {
		places = append(places, filepath.Join(beside, "../../bin"))
	}
	for _, dir := range places {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, check(path)
		}
	}
	return "", spec.Errorf(spec.ErrSandbox, "the program %s is missing: it is neither in %s nor in %s", name, places[0], filepath.Clean(places[1])).
		WithHint(reinstall)
}

// executable is the path of the program that runs, without links.
func executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the program that runs: %w", err)
	}
	path = strings.TrimSuffix(path, " (deleted)") // it was replaced: those beside it are of another build
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path, nil
}

// check refuses a program of another build than the one that runs.
func check(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return spec.Errorf(spec.ErrSandbox, "tell of which build %s is: %w", path, err).WithHint(reinstall)
	}
	if theirs, own := id(info), own(); theirs != own {
		return spec.Errorf(spec.ErrSandbox, "%s is of another build than the bothy that would start it: %s, not %s", path, theirs, own).
			WithHint(reinstall)
	}
	return nil
}

// own is the identifier of the program that runs.
var own = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return id(info)
})

// id tells builds apart. All programs of one have the same, and so have two of one commit with
// different changes, which Go does not tell apart.
func id(info *debug.BuildInfo) string {
	words := []string{version(info), info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "-ldflags" || s.Key == "-tags" {
			words = append(words, s.Key+"="+s.Value)
		}
	}
	return strings.Join(words, " ")
}

// Version is that of the module, or of the commit that the program was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return version(info)
}

func version(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if rev == "" {
		return "devel"
	}
	return "devel-" + rev + dirty
}
