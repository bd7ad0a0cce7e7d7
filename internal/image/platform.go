package image

import (
	"runtime"
	"strings"

	"golang.org/x/sys/cpu"
)

// Platform is the kind of machine an image is made for.
type Platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

// Host is the platform of this machine.
func Host() Platform { return Platform{OS: "linux", Architecture: runtime.GOARCH} }

func (p Platform) String() string {
	return strings.TrimSuffix(p.OS+"/"+p.Architecture+"/"+p.Variant, "/")
}

// Fits reports whether an image for a platform runs here, and whether it runs on every processor of the
// architecture (plain). Plain images are preferred.
func (p Platform) Fits() (fits, plain bool) {
	if p.OS != "linux" || p.Architecture != runtime.GOARCH {
		return false, false
	}
	switch {
	case p.Variant == "", p.Architecture == "amd64" && p.Variant == "v1", p.Architecture == "arm64" && p.Variant == "v8":
		return true, true
	case p.Architecture != "amd64":
		return true, false
	}
	level, known := levels86[p.Variant]
	return known && level <= level86(), false
}

// levels86 are the variants of amd64 that need a newer processor.
var levels86 = map[string]int{"v2": 2, "v3": 3, "v4": 4}

// level86 is the level of this processor among the levels of amd64, from 1 to 4.
func level86() int {
	x := cpu.X86
	for i, has := range []bool{
		x.HasCX16 && x.HasSSE3 && x.HasSSSE3 && x.HasSSE41 && x.HasSSE42 && x.HasPOPCNT,
		x.HasAVX && x.HasAVX2 && x.HasBMI1 && x.HasBMI2 && x.HasFMA && x.HasOSXSAVE,
		x.HasAVX512F && x.HasAVX512BW && x.HasAVX512CD && x.HasAVX512DQ && x.HasAVX512VL,
	} {
		if !has {
			return i + 1
		}
	}
	return 4
}
