package wire

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// KeeperStatus answers OpStatus. Programs inside decide how many flows and tasks exist: see
// [KeeperStatus.SetFlows] and [KeeperStatus.SetTasks].
type KeeperStatus struct {
	Version  string         `json:"version"`
	Status   spec.Status    `json:"status"`
	Sessions []spec.Session `json:"sessions"`
	Usage    spec.Usage     `json:"usage"`
	Tasks    []Task         `json:"tasks,omitempty"` // the busiest of Usage.Processes
	Flows    []spec.Flow    `json:"flows,omitempty"` // those of Open that carried the most bytes
	Open     int            `json:"open"`            // number of flows, including those that do not fit
	Carried  int64          `json:"carried"`         // bytes, by all open flows
	// Generation is the generation of the network rules in force.
	Generation uint64 `json:"generation"`
}

// maxListed is the number of bytes of a status for the list of tasks, and for that of flows. A status
// must fit into one message to be sent at all.
const maxListed = MaxPayload / 4

// SetFlows counts flows, and lists as many as fit, in their order.
func (st *KeeperStatus) SetFlows(list []spec.Flow) {
	st.Open, st.Carried = len(list), 0
	for _, f := range list {
		st.Carried += f.Up + f.Down
	}
	st.Flows = fitting(list, func(a, b spec.Flow) int { return cmp.Compare(b.Up+b.Down, a.Up+a.Down) })
}

// SetTasks counts processes, and lists as many as fit, in their order.
func (st *KeeperStatus) SetTasks(list []Task) {
	st.Usage.Processes = len(list)
	st.Tasks = fitting(list, func(a, b Task) int { return cmp.Compare(b.CPUSeconds, a.CPUSeconds) })
}

// fitting drops the items of a list that do not fit, the lightest first.
func fitting[T any](list []T, weight func(a, b T) int) []T {
	size := make([]int, len(list))
	all := 0
	byWeight := make([]int, len(list))
	for i := range list {
		b, err := json.Marshal(list[i])
		if err != nil {
			return nil // the list could not be sent
		}
		byWeight[i], size[i] = i, len(b)+1
		all += size[i]
	}
	if all <= maxListed {
		return list
	}
	slices.SortStableFunc(byWeight, func(i, j int) int { return weight(list[i], list[j]) })
	room := maxListed
	n := slices.IndexFunc(byWeight, func(i int) bool { room -= size[i]; return room < 0 })
	kept := byWeight[:n]
	slices.Sort(kept)
	fit := make([]T, 0, n)
	for _, i := range kept {
		fit = append(fit, list[i])
	}
	return fit
}

// Task is a process inside.
type Task struct {
	PID        int     `json:"pid"`
	PPID       int     `json:"ppid"`
	UID        int     `json:"uid"`
	CPUSeconds float64 `json:"cpu_seconds"`
	Command    string  `json:"command"`
}
