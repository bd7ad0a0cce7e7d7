// Package program finds the programs that Bothy consists of, and tells whether they are of one
// build.
package program

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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

// Find gives the path of a program of Bothy: beside the one that runs, or in libexec.
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
			return path, nil
		}
	}
	return "", spec.Errorf(spec.ErrSandbox, "the program %s is missing: it is neither in %s nor in %s", name, places[0], filepath.Clean(places[1])).
		WithHint("install all programs of one version: go install github.com/bothy-dev/bothy/cmd/...@latest, or in a clone: go install ./cmd/...")
}

// executable is the path of the program that runs, without links.
func executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the program that runs: %w", err)
	}
	path = strings.TrimSuffix(path, " (deleted)") // it was replaced: others of its place are of another build, and say so
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path, nil
}

// stamp tells a build from others that Go cannot tell apart, such as two of changed sources.
// It is set by -ldflags "-X github.com/bothy-dev/bothy/internal/program.stamp=…".
var stamp string

// Version is that of the module, or of the commit that the program was built from.
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
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
})

// ID tells builds apart: all programs of one have the same.
var ID = sync.OnceValue(func() string {
	id := Version() + " " + runtime.Version()
	if stamp != "" {
		id += " " + stamp
	}
	return id
})

// Check refuses to work with a program whose identifier is not this one's.
func Check(name, id string) error {
	if id == ID() {
		return nil
	}
	return spec.Errorf(spec.ErrSandbox, "%s is of another build than the program that works with it: %s, not %s", name, cmp.Or(id, "an earlier one"), ID()).
		WithHint("install all programs of one version: go install github.com/bothy-dev/bothy/cmd/...@latest, or in a clone: go install ./cmd/...; then run the command again")
}
