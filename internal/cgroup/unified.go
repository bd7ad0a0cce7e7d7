package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// placeV2 chooses the group that can hand on the largest number of the controllers, and the nearest of
// equal ones.
func (h *host) placeV2(v view, controllers []string) map[string]place {
	if len(controllers) == 0 {
		return nil
	}
	own, top := v.ownGroupV2()
	if own == "" {
		return allRefused(controllers, v.withoutV2(controllers))
	}
	offers := h.offers(own, top, controllers)
	best := slices.MaxFunc(offers, func(a, b offer) int { return len(a.have) - len(b.have) })
	places := make(map[string]place, len(controllers))
	for _, c := range controllers {
		if slices.Contains(best.have, c) {
			places[c] = place{version: 2, parent: best.dir, vacate: best.vacate}
		} else {
			places[c] = place{version: 2, refusal: h.whyRefused(offers, c)}
		}
	}
	return places
}

// withoutV2 returns the refusal if the caller's group on cgroup v2 is not visible.
func (v view) withoutV2(controllers []string) refusal {
	if v.v2 != "" && slices.ContainsFunc(v.mounts, func(m mount) bool { return m.kind == "cgroup2" }) {
		return refusal{"the caller's own cgroup is not visible", adviceNested}
	}
	return noController(controllers...)
}

func allRefused(controllers []string, r refusal) map[string]place {
	places := make(map[string]place, len(controllers))
	for _, c := range controllers {
		places[c] = place{version: 2, refusal: r}
	}
	return places
}

func noController(names ...string) refusal {
	fix := "use a kernel with this controller"
	if slices.Contains(names, "memory") {
		fix = "boot with the kernel parameters cgroup_enable=memory swapaccount=1"
	}
	return refusal{fmt.Sprintf("the kernel offers no %s controller", strings.Join(names, " or ")), fix}
}

// offer describes the controllers that one group of cgroup v2 can give to a child.
type offer struct {
	dir    string
	have   []string // controllers it can hand on
	vacate bool     // once the caller has left it
	denied *refusal // it cannot be written to at all
	busy   bool     // it holds processes, so it hands on nothing new
	has    []string // its own controllers
}

// offers checks every group from the caller's own up to the top of the mount. If the caller has made
// room before, its leaf does not count as its own group.
func (h *host) offers(own, top string, wanted []string) []offer {
	if filepath.Base(own) == callerName && own != top {
		own = filepath.Dir(own)
	}
	var all []offer
	for dir := own; ; dir = filepath.Dir(dir) {
		all = append(all, h.offerOf(dir, dir == own, wanted))
		if dir == top {
			return all
		}
	}
}

func (h *host) offerOf(dir string, own bool, wanted []string) offer {
	o := offer{dir: dir, has: fields(dir, "cgroup.controllers")}
	control := filepath.Join(dir, "cgroup.subtree_control")
	// To move a process the kernel requires write access to the processes of the group that encloses
	// both ends, which is this one.
	for _, path := range []string{dir, filepath.Join(dir, "cgroup.procs"), control} {
		if err := h.kernel.access(path); err != nil {
			r := h.unwritable(dir, 2, err)
			o.denied = &r
			return o
		}
	}
	if kind := fields(dir, "cgroup.type"); len(kind) > 0 && kind[0] != "domain" || len(kind) > 1 {
		o.denied = &refusal{fmt.Sprintf("cgroup %s is threaded", dir), adviceV2}
		return o
	}
	handedOn := fields(dir, "cgroup.subtree_control")
	o.busy, o.vacate = h.occupied(dir, own)
	for _, c := range wanted {
		if slices.Contains(handedOn, c) || slices.Contains(o.has, c) && !o.busy {
			o.have = append(o.have, c)
		}
	}
	return o
}

// occupied reports whether the processes in a group keep it from handing on controllers. That rule does
// not apply to the root. The caller itself can leave.
func (h *host) occupied(dir string, own bool) (busy, vacate bool) {
	if isRoot(dir) {
		return false, false
	}
	pids, err := readPids(dir)
	switch {
	case err != nil:
		return true, false
	case own && len(pids) == 1 && pids[0] == h.pid:
		return false, true
	}
	return len(pids) > 0, false
}

// whyRefused picks, of all reasons against a controller, the one closest to a remedy.
func (h *host) whyRefused(offers []offer, controller string) refusal {
	top := offers[len(offers)-1]
	if !slices.Contains(top.has, controller) && isRoot(top.dir) {
		return noController(controller)
	}
	for _, o := range offers {
		if o.denied == nil && o.busy && slices.Contains(o.has, controller) {
			return h.crowded(o.dir, controller)
		}
	}
	for _, o := range slices.Backward(offers) {
		if o.denied == nil {
			return refusal{fmt.Sprintf("the %s controller is not delegated to cgroup %s", controller, o.dir), adviceDelegate}
		}
	}
	return *offers[0].denied
}

func (h *host) crowded(dir, controller string) refusal {
	fix := adviceBusy
	if h.uid == 0 {
		fix = adviceBusyRoot
	}
	return refusal{fmt.Sprintf("cgroup %s holds other processes and so cannot hand on the %s controller", dir, controller), fix}
}

// isRoot distinguishes the root of cgroup v2 from the root of a cgroup namespace: it is the only group
// without a type.
func isRoot(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.type"))
	return errors.Is(err, os.ErrNotExist)
}

// fields reads a control file of words. A missing file has none.
func fields(dir, file string) []string {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}
