package wire

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// KeeperStatus answers OpStatus. How many flows and tasks there are is up to whoever is
// inside: see [KeeperStatus.SetFlows] and [KeeperStatus.SetTasks].
type KeeperStatus struct {
	Version  string         `json:"version"`
	Status   spec.Status    `json:"status"`
	Sessions []spec.Session `json:"sessions"`
	Usage    spec.Usage     `json:"usage"`
	Tasks    []Task         `json:"tasks,omitempty"` // of Usage.Processes, the busiest
	Flows    []spec.Flow    `json:"flows,omitempty"` // of Open, those that carried most
	Open     int            `json:"open"`            // flows, those that do not fit too
	Carried  int64          `json:"carried"`         // bytes, by all flows that are open
	// Generation is that of the network rules in force.
	Generation uint64 `json:"generation"`
}

// maxListed is how many bytes of a status are about tasks, and about flows: of more than
// fits into one message nothing at all would be heard.
const maxListed = MaxPayload / 4

// SetFlows tells of flows, and has as many listed as fit, in the order they are in.
func (st *KeeperStatus) SetFlows(list []spec.Flow) {
	st.Open, st.Carried = len(list), 0
	for _, f := range list {
		st.Carried += f.Up + f.Down
	}
	st.Flows = fitting(list, func(a, b spec.Flow) int { return cmp.Compare(b.Up+b.Down, a.Up+a.Down) })
}

// SetTasks tells of processes, and has as many listed as fit, in the order they are in.
func (st *KeeperStatus) SetTasks(list []Task) {
	st.Usage.Processes = len(list)
	st.Tasks = fitting(list, func(a, b Task) int { return cmp.Compare(b.CPUSeconds, a.CPUSeconds) })
}

// fitting leaves out of a list what does not fit, from the last in order of weight on.
func fitting[T any](list []T, weight func(a, b T) int) []T {
	size := make([]int, len(list))
	all := 0
	byWeight := make([]int, len(list))
	for i := range list {
		b, err := json.Marshal(list[i])
		if err != nil {
			return nil // it could not be sent
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
