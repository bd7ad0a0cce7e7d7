// Package program finds the programs that Bothy consists of, and rejects those of another build.
package program

import (
	"cmp"
	"runtime/debug"
)

// GVisor is the keeper's version of gVisor.
const GVisor = "v0.0.0-20260905035102-160fafc42237"

// devel is the version of a program that does not record one.
const devel = "devel"

// Version returns the version of Bothy's module in this program, or of the commit that it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if linked, proven := linkedModule(info); proven {
		return linked.Version
	}
	return devel
}

// module is the path of Bothy's module.
const module = "github.com/bothy-dev/bothy"

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
		return devel
	}
	return devel + "-" + rev + dirty
}

// linkedModule returns Bothy's module as a program links it. It is not proven if the program does not
// record the version, as with a directory in the place of the module.
func linkedModule(info *debug.BuildInfo) (m debug.Module, proven bool) {
	if info == nil {
		return m, false
	}
	if info.Main.Path == module {
		m.Version = version(info)
		return m, m.Version != devel
	}
	for _, d := range info.Deps {
		if d.Path == module {
			m = *cmp.Or(d.Replace, d)
			return m, m.Version != "" && m.Version != "(devel)"
		}
	}
	return m, false
}
