package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/memfile"
)

// usage is the memory of some processes, in KiB.
type usage struct {
	private int64                // pages nobody else maps, but for those of shared files
	pss     int64                // everything mapped, shared pages in part
	memfd   map[memfile.ID]int64 // shared files, in bytes: each counts once, mapped or not
}

// total is what would come free if the processes went.
func (u usage) total() int64 {
	total := u.private
	for _, size := range u.memfd {
		total += size >> 10
	}
	return total
}

// measure adds a process.
func (u *usage) measure(pid int) error {
	if u.memfd == nil {
		u.memfd = map[memfile.ID]int64{}
	}
	maps.Copy(u.memfd, memfile.Of(pid))
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return err
	}
	private, pss := parseSmaps(string(text))
	u.private += private
	u.pss += pss
	return nil
}

// parseSmaps sums up the mappings of a process. The private pages of a file in
// memory are left out: the file is counted as a whole.
func parseSmaps(text string) (private, pss int64) {
	shared := false
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if strings.ContainsAny(key, " -") { // the head of a mapping: 7f00-7f01 rw-s … /memfd:name (deleted)
			_, path, _ := strings.Cut(line, "/")
			shared = memfile.Is("/" + strings.TrimSpace(path))
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

// role is what a process of a sandbox is there for. Programs inside appear on
// the host as the sentry's children, which have no command line of their own.
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

// start is when a process began, which tells it from a later one with the same
// number. It is empty if there is none or it is a zombie.
func start(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(after)
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[19]
}
