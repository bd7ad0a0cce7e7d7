package agent

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Target is the system that a program is to run on. A template's C library may differ from the host's.
type Target struct {
	OS       string `json:"os"`   // as Go names it
	Arch     string `json:"arch"` // as Go names it
	Libc     string `json:"libc"` // Glibc, Musl, or empty: none, only static programs run
	Baseline bool   `json:"baseline,omitempty"`
}

// C libraries of Linux.
const (
	Glibc = "glibc"
	Musl  = "musl"
)

// baseline marks programs for processors without AVX2, which the ordinary builds of some programs need.
const baseline = "baseline"

// anyTarget is the key of a program that runs everywhere.
const anyTarget = "any"

// String returns the parts of a target, with slashes between them.
func (t Target) String() string {
	parts := []string{t.OS, t.Arch}
	if t.Libc != "" {
		parts = append(parts, t.Libc)
	}
	if t.Baseline {
		parts = append(parts, baseline)
	}
	return strings.Join(parts, "/")
}

// platformKeys returns a target's keys, the most specific first.
func (t Target) platformKeys() []string {
	machine := t.OS + "/" + t.Arch
	list := []string{machine, anyTarget}
	if t.Libc != "" {
		list = append([]string{machine + "/" + t.Libc}, list...)
		if t.Baseline {
			list = append([]string{machine + "/" + t.Libc + "/" + baseline}, list...)
		}
	}
	return list
}

// dirName returns the directory of a version for a platform. It omits the host's usual platform.
func dirName(version, key string) string {
	parts := strings.Split(key, "/")
	if len(parts) > 2 {
		parts = parts[2:]
		if parts[0] == Glibc {
			parts = parts[1:]
		}
		if len(parts) > 0 {
			return version + "+" + strings.Join(parts, ".")
		}
	}
	return version
}

// TargetOf finds the target of programs below a root directory: "/" is the host.
func TargetOf(root string) Target {
	t := Target{OS: runtime.GOOS, Arch: runtime.GOARCH}
	switch {
	case hasLoader(root, "ld-linux-*.so.*"):
		t.Libc = Glibc
	case hasLoader(root, "ld-musl-*.so.1"):
		t.Libc = Musl
	}
	t.Baseline = t.Arch == "amd64" && !hasAVX2("/proc/cpuinfo")
	return t
}

func hasLoader(root, pattern string) bool {
	for _, dir := range []string{"lib64", "lib", "usr/lib64", "usr/lib"} {
		if found, _ := filepath.Glob(filepath.Join(root, dir, pattern)); len(found) > 0 {
			return true
		}
	}
	return false
}

// hasAVX2 reads the processor's features. If they cannot be read, it assumes AVX2, which
// nearly every processor has had for ten years.
func hasAVX2(cpuinfo string) bool {
	text, err := os.ReadFile(cpuinfo)
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		if name, flags, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "flags" {
			return strings.Contains(" "+strings.TrimSpace(flags)+" ", " avx2 ")
		}
	}
	return true
}
