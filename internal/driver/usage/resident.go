package usage

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Resident returns the memory use of processes. It counts their mappings, with a share of each
// shared page, and all of their files in memory. Such a file holds the memory of programs
// inside. After a restore only pages that were touched since are mapped.
func Resident(pids []int) int64 {
	var total int64
	files := map[uint64]int64{}
	for _, pid := range pids {
		total += mapped(pid)
		maps.Copy(files, memoryFiles(pid))
	}
	for _, size := range files {
		total += size
	}
	return total
}

// mapped returns the size of a process's mappings without shared memory.
func mapped(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	var all, shared int64
	for line := range strings.Lines(string(text)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "Pss: %d kB", &kib); err == nil {
			all = kib << 10
		}
		if _, err := fmt.Sscanf(line, "Pss_Shmem: %d kB", &kib); err == nil {
			shared = kib << 10
		}
	}
	return all - shared
}

// memoryFiles returns the sizes of the files in memory that a process has open, by inode number.
func memoryFiles(pid int) map[uint64]int64 {
	sizes := map[uint64]int64{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, "/memfd:") {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(link, &st) == nil {
			sizes[st.Ino] = st.Blocks * 512
		}
	}
	return sizes
}
