package gvisor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/bothy-dev/bothy/internal/driver"
)

// capabilities are those of root behind the wall: all of them. They count only towards the sentry,
// a program that has none on the host.
var capabilities = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH",
	"CAP_FOWNER", "CAP_FSETID", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_KILL",
	"CAP_LEASE", "CAP_LINUX_IMMUTABLE", "CAP_MKNOD", "CAP_NET_ADMIN",
	"CAP_NET_BIND_SERVICE", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP",
	"CAP_SETUID", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_SYS_NICE",
	"CAP_SYS_PTRACE", "CAP_SYS_RESOURCE", "CAP_SYS_TTY_CONFIG",
}

// elevate is the pair of capabilities that an ordinary user keeps, so that sudo works without
// set-uid files.
var elevate = []string{"CAP_SETUID", "CAP_SETGID"}

// writeBundle writes config.json, which gVisor's children read.
func writeBundle(m driver.Machine, overlay string) (string, error) {
	dir := filepath.Join(m.Scratch, "bundle")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	data, err := json.Marshal(ociSpec(m, overlay))
	if err != nil {
		return "", fmt.Errorf("encode config.json: %w", err)
	}
	return dir, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}

// ociSpec describes the machine in terms of the runtime specification.
func ociSpec(m driver.Machine, overlay string) *specs.Spec {
	id := func(n int) []specs.LinuxIDMapping {
		return []specs.LinuxIDMapping{{ContainerID: uint32(n), HostID: uint32(n), Size: 1}}
	}
	return &specs.Spec{
		Version:  "1.2.1",
		Hostname: m.Hostname,
		Root:     &specs.Root{Path: m.Root},
		Process: &specs.Process{
			// The sentry and the gofer run as the id that init starts with, and only this id is mapped.
			// Init becomes root of the inside.
			User: specs.User{UID: uint32(m.UID), GID: uint32(m.GID)},
			Args: m.Init,
			Env:  m.Env,
			Cwd:  "/",
			Capabilities: &specs.LinuxCapabilities{
				Bounding: capabilities, Effective: capabilities, Permitted: capabilities,
				Inheritable: capabilities, Ambient: capabilities,
			},
			Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: m.Files, Hard: m.Files}},
		},
		Mounts:      append(systemMounts(), bindMounts(m.Mounts)...),
		Annotations: rootfsHints(m, overlay),
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.UserNamespace},
				{Type: specs.PIDNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.NetworkNamespace},
				{Type: specs.CgroupNamespace},
			},
			Resources:   shownResources(m),
			UIDMappings: id(m.UID),
			GIDMappings: id(m.GID),
		},
	}
}

// rootfsHints tells gVisor the file of the root, if the root is a file, and the mounts that others change,
// too. gVisor may cache the rest, by configuration. (The opposite hint would put an overlay over a mount
// and keep writes from the host.) A file system in memory that is kept is a bind, which a hint turns
// into such a file system with a file in its source for its memory: gVisor saves only those. The bundle
// has no other annotations, and takes none from outside, because annotations override flags.
func rootfsHints(machine driver.Machine, overlay string) map[string]string {
	out := map[string]string{}
	if machine.Image != "" {
		const key = "dev.gvisor.spec.rootfs."
		out[key+"source"], out[key+"type"], out[key+"overlay"] = machine.Image, "erofs", overlay
		if machine.RootLimit > 0 {
			out[key+"options"] = "size=" + strconv.FormatInt(machine.RootLimit, 10)
		}
	}
	for i, m := range machine.Mounts {
		key := "dev.gvisor.spec.mount.m" + strconv.Itoa(i) + "."
		switch {
		case m.Memory && m.Kept: // "container" adds no overlay to a bind, as the mount is then not a bind
			out[key+"source"], out[key+"type"], out[key+"share"] = m.Source, "tmpfs", "container"
			out[key+"options"] = strings.Join(memoryOptions(m), ",") // gVisor then ignores the options of the mount itself
		case !m.Memory && !m.Exclusive:
			out[key+"source"], out[key+"type"], out[key+"share"] = m.Source, "bind", "shared"
		}
	}
	return out
}

func systemMounts() []specs.Mount {
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/dev", Type: "tmpfs", Source: "dev"},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup"},
	}
}

// memoryOptions returns the mount options of a file system in memory.
func memoryOptions(m driver.Mount) []string {
	opts := []string{"mode=" + strconv.FormatUint(uint64(m.Mode), 8)}
	if m.Size > 0 {
		opts = append(opts, "size="+strconv.FormatInt(m.Size, 10))
	}
	return opts
}

func bindMounts(mounts []driver.Mount) []specs.Mount {
	var out []specs.Mount
	for _, m := range mounts {
		if m.Memory {
			opts := memoryOptions(m)
			if m.Kept {
				out = append(out, specs.Mount{Destination: m.Target, Type: "bind", Source: m.Source, Options: append(opts, "bind", "rw")})
				continue
			}
			out = append(out, specs.Mount{Destination: m.Target, Type: "tmpfs", Source: "tmpfs", Options: opts})
			continue
		}
		access := "rw"
		if m.ReadOnly {
			access = "ro"
		}
		out = append(out, specs.Mount{Destination: cmp.Or(m.Stage, m.Target), Type: "bind", Source: m.Source, Options: []string{"rbind", access}})
	}
	return out
}
