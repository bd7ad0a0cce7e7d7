package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Host describes the machine, as far as it explains the numbers. It contains no name of the machine or
// its user.
type Host struct {
	Kind       string `json:"kind"` // as in the name of the file
	Kernel     string `json:"kernel"`
	Arch       string `json:"arch"`
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	MemoryMiB  int64  `json:"memory_mib"`
	Root       bool   `json:"root"`             // root ran bothy and its peers
	FileSystem string `json:"file_system"`      // of the workspace and of bothy's state
	HostTmp    string `json:"file_system_tmp"`  // of the host's /tmp, which native uses for temporary files
	HostRoot   string `json:"file_system_root"` // of the host's programs
}

// Load is the load average over 1, 5 and 15 minutes.
type Load [3]float64

func (l Load) String() string { return fmt.Sprintf("%.2f %.2f %.2f", l[0], l[1], l[2]) }

func load() Load {
	var l Load
	b, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(b), &l[0], &l[1], &l[2])
	return l
}

func describeHost(work string) Host {
	var uts unix.Utsname
	_ = unix.Uname(&uts)
	info, _ := os.ReadFile("/proc/cpuinfo")
	table, _ := os.ReadFile("/proc/self/mountinfo")
	h := Host{
		Kernel:     unix.ByteSliceToString(uts.Release[:]),
		Arch:       runtime.GOARCH,
		CPU:        field(string(info), "model name"),
		Cores:      runtime.NumCPU(),
		MemoryMiB:  memInfo("MemTotal"),
		Root:       os.Geteuid() == 0,
		FileSystem: fileSystem(string(table), work),
		HostTmp:    fileSystem(string(table), "/tmp"),
		HostRoot:   fileSystem(string(table), "/usr"),
	}
	user := "user"
	if h.Root {
		user = "root"
	}
	h.Kind = fmt.Sprintf("%s-%dcpu-%s", machine(string(info), fileSystem(string(table), "/")), h.Cores, user)
	return h
}

// machine distinguishes a virtual machine or a container from a computer.
func machine(cpuinfo, rootType string) string {
	for _, f := range []string{"/.dockerenv", "/run/.containerenv"} {
		// Virtual machines made from container images keep the file, but not the
		// root file system.
		if _, err := os.Stat(f); err == nil && rootType == "overlay" {
			return "container"
		}
	}
	if strings.Contains(" "+field(cpuinfo, "flags")+" ", " hypervisor ") {
		return "vm"
	}
	return "metal"
}

// field returns the first value of a key in a file like /proc/cpuinfo.
func field(text, key string) string {
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// memInfo returns a line of /proc/meminfo, in MiB.
func memInfo(key string) int64 {
	b, _ := os.ReadFile("/proc/meminfo")
	var kib int64
	_, _ = fmt.Sscan(field(string(b), key), &kib)
	return kib >> 10
}

// fileSystem returns the type of the file system at a path, from a mount table.
func fileSystem(table, path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		path = p
	}
	kind, longest := "", -1
	for line := range strings.Lines(table) {
		before, after, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if len(f) < 5 || len(f[4]) < longest {
			continue
		}
		if point := strings.TrimSuffix(f[4], "/"); path == point || strings.HasPrefix(path, point+"/") {
			longest = len(f[4])
			kind, _, _ = strings.Cut(after, " ")
		}
	}
	return kind
}
