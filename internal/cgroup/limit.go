package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// The controllers this package uses.
const (
	cpuController    = "cpu"
	memoryController = "memory"
	pidsController   = "pids"
)

// wish is one limit to set, and how to set it.
type wish struct {
	limit      string // as in spec.Enforcement; empty for our own safety net
	value      string // in the user's notation
	controller string
	asked      bool // it is not only a default
	// set writes the limit into a group. The caveat, if any, is a way around the limit that
	// remains on this host.
	set func(h *host, version int, dir string) (caveat string, err error)
}

func wishesOf(asked, def spec.Limits) []wish {
	var wishes []wish
	limits := asked.WithDefaults(def)
	if n := limits.CPUs; n > 0 {
		wishes = append(wishes, wish{spec.LimitCPUs, formatCPUs(n), cpuController, asked.CPUs > 0, cpuQuota(n)})
	}
	if n := limits.Memory; n > 0 {
		wishes = append(wishes, wish{spec.LimitMemory, formatBytes(n), memoryController, asked.Memory > 0, memoryMax(n)})
	}
	n := hostPids(limits.Pids)
	return append(wishes, wish{controller: pidsController, set: pidsMax(n)})
}

func controllersOf(wishes []wish) []string {
	var names []string
	for _, w := range wishes {
		names = append(names, w.controller)
	}
	return names
}

const (
	period   = 100_000   // microseconds over which the quota counts, the kernel's default
	minQuota = 1_000     // the kernel accepts no smaller one
	maxPids  = 4_194_304 // the kernel accepts no larger cap
	freePids = 32_768    // the cap without a limit inside
)

// hostPids is the cap on the host's processes for a limit inside. One process inside takes
// several outside, and gVisor has threads of its own. Reaching the cap ends the whole
// sandbox, so it only protects the host.
func hostPids(inside int64) int64 {
	switch {
	case inside <= 0:
		return freePids
	case inside > maxPids/4:
		return maxPids
	}
	return min(4*inside+1024, maxPids)
}

func pidsMax(n int64) func(*host, int, string) (string, error) {
	return func(h *host, _ int, dir string) (string, error) {
		return "", h.setLimitFile(dir, "pids.max", strconv.FormatInt(n, 10))
	}
}

// cpuQuota allows the time of this many processors, at least a hundredth of one.
func cpuQuota(cpus float64) func(*host, int, string) (string, error) {
	quota := max(int64(math.Round(min(cpus, 1e6)*period)), minQuota)
	return func(h *host, version int, dir string) (string, error) {
		if version == 2 {
			return "", h.setLimitFile(dir, "cpu.max", fmt.Sprintf("%d %d", quota, period))
		}
		if err := h.setLimitFile(dir, "cpu.cfs_period_us", strconv.Itoa(period)); err != nil {
			return "", err
		}
		err := h.setLimitFile(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
		if errors.Is(err, unix.EINVAL) && outerQuota(dir) <= float64(quota)/period {
			return "", nil // v1 refuses more than an outer group allows, and that one applies
		}
		return "", err
	}
}

// outerQuota returns the number of processors that the v1 groups around a group allow it.
func outerQuota(dir string) float64 {
	outer := math.Inf(1)
	for {
		dir = filepath.Dir(dir)
		quota, err := readNumber(dir, "cpu.cfs_quota_us")
		if err != nil {
			return outer
		}
		if per, err := readNumber(dir, "cpu.cfs_period_us"); err == nil && quota > 0 && per > 0 {
			outer = min(outer, float64(quota)/float64(per))
		}
	}
}

// memoryMax bounds memory, and swap, which would be a way around the limit.
func memoryMax(n int64) func(*host, int, string) (string, error) {
	limit := strconv.FormatInt(n, 10)
	return func(h *host, version int, dir string) (string, error) {
		file, swapFile, swapLimit := "memory.max", "memory.swap.max", "0"
		if version == 1 {
			file, swapFile, swapLimit = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", limit
		}
		if err := h.setLimitFile(dir, file, limit); err != nil {
			return "", err
		}
		if h.setLimitFile(dir, swapFile, swapLimit) != nil && h.hasSwap() {
			return "swap is not counted on this host, so that memory may still move there", nil
		}
		return "", nil
	}
}

// hasSwap reports whether the machine can swap at all.
func (h *host) hasSwap() bool {
	data, err := os.ReadFile(filepath.Join(h.proc, "swaps"))
	return err == nil && bytes.Count(data, []byte("\n")) > 1 // the first line is a heading
}

// setLimitFile writes a control file of a group.
func (h *host) setLimitFile(dir, file, value string) error {
	if err := h.kernel.write(filepath.Join(dir, file), value); err != nil {
		return fmt.Errorf("set %s of cgroup %s: %w", file, dir, withoutPath(err))
	}
	return nil
}

func formatCPUs(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// formatBytes writes a size with the largest unit that leaves a whole number.
func formatBytes(n int64) string {
	units := "kmgt"
	i := -1
	for n >= 1024 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	if i < 0 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10) + units[i:i+1]
}

// readNumber reads a control file of one number; "max" and "-1" are -1.
func readNumber(dir, file string) (int64, error) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	word := strings.TrimSpace(string(data))
	if word == "max" {
		return -1, nil
	}
	return strconv.ParseInt(word, 10, 64)
}
