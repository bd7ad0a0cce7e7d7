package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
)

// endTree sends a signal to a program and to all processes that it started. Before a kill it stops them,
// so that none escapes by forking meanwhile. A process that hides, with its own session and environment,
// ends with the sandbox.
func endTree(t wire.Tree) error {
	if t.PID <= 1 {
		return fmt.Errorf("no program to end: %d", t.PID)
	}
	sig := unix.Signal(t.Signal)
	if sig != unix.SIGKILL {
		return signalAll(members(t), sig)
	}
	var stopped []int
	for range maxScans {
		fresh := slices.DeleteFunc(members(t), func(pid int) bool { return slices.Contains(stopped, pid) })
		if len(fresh) == 0 {
			break
		}
		_ = signalAll(fresh, unix.SIGSTOP)
		stopped = append(stopped, fresh...)
	}
	return signalAll(stopped, sig)
}

// maxScans bounds the chase of a program that forks as fast as it can. The processes that are left
// have lost their parents.
const maxScans = 50

func signalAll(pids []int, sig unix.Signal) error {
	var errs []error
	for _, pid := range pids {
		if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("signal process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

// members returns a program and all processes that it started: its descendants, the processes in
// its session, and those with its mark, if it has one. Each process comes before its
// children: a shell whose child is signalled first would go on with its next command.
func members(t wire.Tree) []int {
	all := processes()
	return parentsFirst(findTree(t, all), all)
}

// parentsFirst sorts processes by the number of their ancestors in the list.
func parentsFirst(pids []int, all []process) []int {
	depth, parent := map[int]int{}, map[int]int{}
	for _, pid := range pids {
		depth[pid] = 0
	}
	for _, p := range all {
		if _, ok := depth[p.parent]; ok {
			parent[p.pid] = p.parent
		}
	}
	for _, pid := range pids {
		for p, ok := parent[pid]; ok && depth[pid] < len(pids); p, ok = parent[p] {
			depth[pid]++
		}
	}
	return slices.SortedStableFunc(slices.Values(pids), func(a, b int) int { return depth[a] - depth[b] })
}

// findTree returns the members in any order, except that the program itself comes first.
func findTree(t wire.Tree, all []process) []int {
	tree := []int{t.PID}
	is := map[int]bool{t.PID: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if is[p.pid] || !is[p.parent] && p.session != t.PID && p.group != t.PID && !p.marked(t.Mark) {
				continue
			}
			is[p.pid], grown = true, true
			tree = append(tree, p.pid)
		}
	}
	return tree
}

// process is an entry of /proc.
type process struct{ pid, parent, group, session int }

// others returns all processes except init, which asks.
func others() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func processes() (list []process) {
	for _, pid := range others() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		// The name in parentheses may contain anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 4 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		p := process{pid: pid}
		for i, to := range []*int{&p.parent, &p.group, &p.session} {
			*to, _ = strconv.Atoi(fields[1+i])
		}
		list = append(list, p)
	}
	return list
}

// marked reports whether a mark is in a process's environment.
func (p process) marked(mark string) bool {
	if mark == "" {
		return false
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
	return err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == mark })
}
