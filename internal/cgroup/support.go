package cgroup

// Controller reports whether this caller can limit sandboxes with one controller.
type Controller struct {
	Name        string `json:"name"` // cpu, memory or pids
	Enforceable bool   `json:"enforceable"`
	By          string `json:"by,omitempty"`     // cgroup v1 or cgroup v2
	Parent      string `json:"parent,omitempty"` // the group that sandboxes are made below
	Reason      string `json:"reason,omitempty"` // why not
	Fix         string `json:"fix,omitempty"`    // the user's remedy
}

// Support checks the host without changing anything, and reports on cpu, memory and pids in this order.
// It tells what Create would try for a sandbox with all limits; the kernel may still refuse a number.
func Support() []Controller { return thisHost().support() }

func (h *host) support() []Controller {
	names := []string{cpuController, memoryController, pidsController}
	places := h.planPlaces(names)
	report := make([]Controller, 0, len(names))
	for _, name := range names {
		p := places[name]
		c := Controller{Name: name, Reason: p.reason, Fix: p.fix}
		if p.parent != "" {
			c = Controller{Name: name, Enforceable: true, By: byVersion(p.version), Parent: p.parent}
		}
		report = append(report, c)
	}
	return report
}
