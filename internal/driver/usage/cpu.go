// Package usage measures the use of the host by processes: processor time and memory.
package usage

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
)

// Of returns the use of the host by processes since their start.
func Of(pids []int) driver.Usage { return driver.Usage{CPU: CPU(pids), Memory: Resident(pids)} }

// CPU returns the CPU time that processes have used since their start.
func CPU(pids []int) time.Duration {
	var sum time.Duration
	for _, pid := range pids {
		sum += processCPU(pid)
	}
	return sum
}

// processCPU returns the CPU time of all threads of a process, by the scheduler's own count. It
// takes one system call, as the caller of a checkpoint waits for it. The clock ticks of stat are
// too coarse to tell idle from a single write. A thread that runs on another processor at this
// moment counts up to that processor's last tick.
func processCPU(pid int) time.Duration {
	var used unix.Timespec
	if err := unix.ClockGettime(cpuClockOf(pid), &used); err != nil { // it has ended
		return 0
	}
	return time.Duration(used.Nano())
}

// cpuClockOf returns the kernel's number for a process's CPU clock, as clock_getcpuclockid(3) does.
func cpuClockOf(pid int) int32 {
	const ofScheduler = 2 // CPUCLOCK_SCHED
	return ^int32(pid)<<3 | ofScheduler
}
