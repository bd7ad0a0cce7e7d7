package gvisor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/driver/gvisor"
	"github.com/bothy-dev/bothy/internal/memfile"
)

// inLargePages starts machines, and wants what their programs have in the file made for
// it, but for those that go on from an image.
type inLargePages struct{ gvisor.Driver }

func (d inLargePages) Start(ctx context.Context, m driver.Machine) (driver.Wall, error) {
	const free = 240 // a descriptor
	err := memfile.Open(free)
	_ = unix.Close(free)
	w, startErr := d.Driver.Start(ctx, m)
	if startErr != nil || err != nil || m.Memory != "" { // such a host has none, or such a machine
		return w, startErr
	}
	if err := memoryMapped(); err != nil {
		w.Destroy()
		return nil, err
	}
	return w, nil
}

// memoryMapped looks at this process's descendants.
func memoryMapped() error {
	ours := false
	for _, pid := range descendants(os.Getpid()) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		for line := range strings.Lines(string(text)) {
			_, path, _ := strings.Cut(line, "/")
			if strings.HasPrefix(path, "memfd:runsc-memory") {
				return fmt.Errorf("process %d has its memory in small pages: %s", pid, line)
			}
			ours = ours || strings.HasPrefix(path, "bothy-memory")
		}
	}
	if !ours {
		return fmt.Errorf("no descendant of %d has memory in a file of ours", os.Getpid())
	}
	return nil
}

func descendants(pid int) []int {
	var pids []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err == nil {
				pids = append(append(pids, child), descendants(child)...)
			}
		}
	}
	return pids
}
