package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
)

// TestEndTree checks that a tree includes a program, its descendants, its session, and processes with
// its mark.
func TestEndTree(t *testing.T) {
	const mark = "BOTHY_COMMAND=of-this-test"
	pids := filepath.Join(t.TempDir(), "pids")
	c := exec.Command("/bin/sh", "-c", `
		sleep 100 & echo $! >>$0
		(setsid sh -c 'echo $$ >>$0; exec sleep 100' $0 &)
		echo $$ >>$0
		wait`, pids)
	c.Env = append(os.Environ(), mark)
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Wait() }()
	var list []string
	for range 1000 {
		b, _ := os.ReadFile(pids)
		if list = strings.Fields(string(b)); len(list) == 3 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(list) != 3 {
		t.Fatalf("there are %q", list)
	}
	if err := endTree(wire.Tree{PID: c.Process.Pid, Mark: mark, Signal: int(unix.SIGKILL)}); err != nil {
		t.Error(err)
	}
	for _, s := range list {
		pid, _ := strconv.Atoi(s)
		gone := false
		for range 1000 {
			stat, err := os.ReadFile("/proc/" + s + "/stat")
			if gone = err != nil || strings.Contains(string(stat), ") Z "); gone {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !gone {
			t.Errorf("process %s goes on", s)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// TestMembersWithoutMark checks that only descent identifies processes without a mark, and does not find
// all of them.
func TestMembersWithoutMark(t *testing.T) {
	c := exec.Command("/bin/sh", "-c", "sleep 100 & read x; kill $!")
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = c.Wait() }()
	pid := c.Process.Pid
	list := members(wire.Tree{PID: pid})
	for range 1000 {
		if len(list) > 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
		list = members(wire.Tree{PID: pid})
	}
	if len(list) != 2 || list[0] != pid {
		t.Errorf("of %d it has %v", pid, list)
	}
}

// TestParentsFirst checks that parents come before their children, whatever their numbers and the order
// in which they were found.
func TestParentsFirst(t *testing.T) {
	all := []process{{pid: 10, parent: 99}, {pid: 5, parent: 10}, {pid: 99, parent: 7}, {pid: 7, parent: 1}, {pid: 6, parent: 7}, {pid: 40, parent: 41}, {pid: 41, parent: 40}}
	for name, c := range map[string]struct{ found, want []int }{
		"a chain":           {[]int{7, 10, 5, 99}, []int{7, 99, 10, 5}},
		"the program alone": {[]int{7}, []int{7}},
		"a missing link":    {[]int{7, 5, 10, 6}, []int{7, 10, 5, 6}},
		"not there":         {[]int{7, 1000}, []int{7, 1000}},
	} {
		if got := parentsFirst(c.found, all); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := parentsFirst([]int{41, 40}, all); len(got) != 2 { // the processes changed while they were read
		t.Errorf("of a circle: %v", got)
	}
}

// TestEndTreeNextCommand checks that a shell that is ended together with the process that it waits for
// does not go on with its next command.
func TestEndTreeNextCommand(t *testing.T) {
	dir := t.TempDir()
	for range 5 {
		c := exec.Command("/bin/sh", "-c", `
			i=0; while [ $i -lt 100 ]; do sleep 100 & i=$((i+1)); done
			touch ready; sleep 100; touch next`)
		c.Dir, c.SysProcAttr = dir, &unix.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		tree := wire.Tree{PID: c.Process.Pid, Signal: int(unix.SIGTERM)}
		for range 1000 {
			if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil && len(members(tree)) == 102 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := endTree(tree); err != nil {
			t.Error(err)
		}
		_ = c.Wait()
		if _, err := os.Stat(filepath.Join(dir, "next")); err == nil {
			t.Fatal("the shell went on")
		}
		if err := os.Remove(filepath.Join(dir, "ready")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEndTreeOfNobody(t *testing.T) {
	for _, tree := range []wire.Tree{{PID: 1, Mark: "A=b", Signal: 9}, {PID: 0, Mark: "A=b", Signal: 9}, {PID: -1, Mark: "A=b"}, {PID: 0}} {
		if endTree(tree) == nil {
			t.Errorf("%+v was ended", tree)
		}
	}
}
