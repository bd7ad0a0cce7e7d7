package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// usage is the memory of some processes, in KiB.
type usage struct {
	private int64            // pages that no other process maps, except those of shared files
	pss     int64            // everything mapped, shared pages in part
	memfd   map[uint64]int64 // shared files by inode: each counts once, mapped or not
}

// total returns the memory that would become free if the processes ended.
func (u usage) total() int64 {
	total := u.private
	for _, kib := range u.memfd {
		total += kib
	}
	return total
}

// measure adds a process.
func (u *usage) measure(pid int) error {
	if u.memfd == nil {
		u.memfd = map[uint64]int64{}
	}
	maps.Copy(u.memfd, memfds(pid))
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return err
	}
	private, pss := parseSmaps(string(text))
	u.private += private
	u.pss += pss
	return nil
}

// parseSmaps sums up the mappings of a process. It leaves out the private pages of a memfd: the file is
// counted as a whole.
func parseSmaps(text string) (private, pss int64) {
	shared := false
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if strings.ContainsAny(key, " -") { // the head of a mapping: 7f00-7f01 rw-s … /memfd:name
			shared = strings.Contains(line, "/memfd:")
			continue
		}
		f := strings.Fields(value)
		if len(f) == 0 {
			continue
		}
		kib, _ := strconv.ParseInt(f[0], 10, 64)
		switch key {
		case "Pss":
			pss += kib
		case "Private_Clean", "Private_Dirty", "Private_Hugetlb":
			if !shared {
				private += kib
			}
		}
	}
	return private, pss
}

// memfds returns the memory files that a process has open, and their size in KiB.
func memfds(pid int) map[uint64]int64 {
	sizes := map[uint64]int64{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, "/memfd:") {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(link, &st) == nil {
			sizes[st.Ino] = st.Blocks / 2
		}
	}
	return sizes
}

// processes lists a process and all below it.
func processes(pid int) []int {
	children := map[int][]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		child, _ := strconv.Atoi(filepath.Base(dir))
		status, _ := os.ReadFile(dir + "/status")
		if parent, err := strconv.Atoi(field(string(status), "PPid")); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	list := []int{pid}
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i]]...)
	}
	return list
}

// role returns the role of a sandbox's process. On the host, programs inside appear as the sentry's
// children, which have no command line of their own.
func role(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	switch name, _, _ := strings.Cut(string(line), "\x00"); name {
	case "bothy-keeper":
		return "keeper"
	case "runsc-sandbox":
		return "sentry"
	case "runsc-gofer":
		return "gofer"
	}
	return "inside"
}

// start returns when a process began, which distinguishes it from a later one with the same number. It
// is empty if the process does not exist or is a zombie.
func start(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(after)
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[19]
}
