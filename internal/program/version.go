// Package program finds the programs that Bothy consists of, and rejects those of another build.
package program

import "runtime/debug"

// GVisor is the keeper's version of gVisor.
const GVisor = "v0.0.0-20260905035102-160fafc42237"

// devel is the version of a program that does not record one.
const devel = "devel"

// Version returns the version of the module, or of the commit that the program was built from.
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
		return devel
	}
	return devel + "-" + rev + dirty
}
