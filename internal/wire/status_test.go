package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestCrowdedStatus checks that a status fits however much exists inside, and that it drops the lightest
// items.
func TestCrowdedStatus(t *testing.T) {
	var flows []spec.Flow
	var tasks []Task
	for i := range 20_000 {
		flows = append(flows, spec.Flow{Name: strings.Repeat("n", 250), Port: uint16(i), Up: 1})
		tasks = append(tasks, Task{PID: i, Command: "\x01\x01\x01\x01\x01\x01\x01\x01"})
	}
	flows[777].Down, tasks[888].CPUSeconds = 1<<30, 99
	var st KeeperStatus
	st.SetFlows(flows)
	st.SetTasks(tasks)
	if _, err := JSON(Reply, 0, st); err != nil {
		t.Fatal(err)
	}
	if st.Open != len(flows) || st.Carried != 1<<30+20_000 || st.Usage.Processes != len(tasks) {
		t.Errorf("%d flows carried %d, %d tasks", st.Open, st.Carried, st.Usage.Processes)
	}
	if len(st.Flows) < 500 || !slices.ContainsFunc(st.Flows, func(f spec.Flow) bool { return f.Port == 777 }) {
		t.Errorf("%d flows are listed, not the largest", len(st.Flows))
	}
	if len(st.Tasks) < 500 || !slices.ContainsFunc(st.Tasks, func(k Task) bool { return k.PID == 888 }) {
		t.Errorf("%d tasks are listed, not the busiest", len(st.Tasks))
	}
	if !slices.IsSortedFunc(st.Tasks, func(a, b Task) int { return a.PID - b.PID }) {
		t.Error("the tasks are in another order")
	}
}

// TestStatus checks that everything is listed if it fits.
func TestStatus(t *testing.T) {
	var st KeeperStatus
	st.SetFlows([]spec.Flow{{Port: 2, Up: 3}, {Port: 1, Down: 4}})
	st.SetTasks([]Task{{PID: 7}, {PID: 5, CPUSeconds: 1}})
	if got := fmt.Sprint(len(st.Flows), st.Open, st.Carried, len(st.Tasks), st.Usage.Processes, st.Tasks[0].PID); got != "2 2 7 2 2 7" {
		t.Error(got)
	}
	st.SetFlows(nil)
	if st.Open != 0 || st.Flows != nil {
		t.Errorf("%+v", st)
	}
}
