package gvisor

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
)

// Constants of a CPU quota.
const (
	quotaPeriod uint64  = 100_000 // length of the period in microseconds: the kernel's default
	maxCPUs     float64 = 1e6
)

// shownResources returns the limits that programs inside see, in terms of the runtime specification.
// They enforce nothing: the caller of the driver does.
func shownResources(m driver.Machine) *specs.LinuxResources {
	r := &specs.LinuxResources{}
	if m.ShownMemory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &m.ShownMemory}
	}
	if m.ShownCPUs > 0 {
		period, quota := quotaPeriod, max(int64(math.Round(min(m.ShownCPUs, maxCPUs)*float64(quotaPeriod))), 1)
		r.CPU = &specs.LinuxCPU{Quota: &quota, Period: &period}
	}
	return r
}

// specFlag is the sentry's flag for the descriptor of config.json.
const specFlag = "--spec-fd="

// addLimits adds flags for the limits in config.json to the arguments of a sentry. gVisor derives
// these flags from its own control groups, which do not exist here.
func addLimits(args []string) ([]string, error) {
	at := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, specFlag) })
	if at < 0 {
		return nil, fmt.Errorf("find %s in the arguments", specFlag)
	}
	fd, err := strconv.Atoi(strings.TrimPrefix(args[at], specFlag))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", args[at], err)
	}
	resources, err := readResources(fd)
	if err != nil {
		return nil, fmt.Errorf("read the limits in config.json: %w", err)
	}
	last := len(args) - 1 // the container's ID
	return slices.Insert(slices.Clone(args), last, limitFlags(resources, runtime.NumCPU(), hostMemory())...), nil
}

// readResources reads the limits in config.json. It keeps the descriptor's position, from which gVisor
// reads later.
func readResources(fd int) (specs.LinuxResources, error) {
	var config struct {
		Linux struct {
			Resources specs.LinuxResources `json:"resources"`
		} `json:"linux"`
	}
	text, err := io.ReadAll(io.NewSectionReader(descriptor(fd), 0, math.MaxInt64))
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	return config.Linux.Resources, err
}

// descriptor is a file that stays open when it is unreachable, unlike an os.File.
type descriptor int

func (fd descriptor) ReadAt(p []byte, offset int64) (int, error) {
	n, err := unix.Pread(int(fd), p, offset)
	switch {
	case err != nil:
		return 0, os.NewSyscallError("pread", err)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// limitFlags returns the flags with which a sentry shows limits to programs. It ignores a limit above
// the host's resources.
func limitFlags(r specs.LinuxResources, hostCPUs int, hostMemory uint64) []string {
	var flags []string
	if r.Memory != nil && r.Memory.Limit != nil && uint64(*r.Memory.Limit) < hostMemory {
		flags = append(flags, fmt.Sprintf("--total-memory=%d", *r.Memory.Limit))
	}
	if c := r.CPU; c != nil && c.Quota != nil && c.Period != nil {
		whole := math.Ceil(float64(*c.Quota) / float64(*c.Period))
		flags = append(flags,
			fmt.Sprintf("--cpu-num=%d", int(min(whole, float64(hostCPUs)))),
			fmt.Sprintf("--cpu-quota=%d", *c.Quota),
			fmt.Sprintf("--cpu-period=%d", *c.Period))
	}
	return flags
}

// hostMemory returns the memory of the host in bytes, or 0 if unknown.
func hostMemory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return info.Totalram * uint64(info.Unit)
}
