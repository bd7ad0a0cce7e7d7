package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// place is where the group of a sandbox gets one controller. Making a plan
// changes nothing.
type place struct {
	version int    // of cgroup: 1 or 2
	parent  string // an existing group; empty if the controller is not available
	// vacate is set if the caller has to leave parent first.
	vacate bool
	refusal
}

// refusal is the reason why something is not available and the user's remedy.
type refusal struct{ reason, fix string }

const (
	adviceV2       = "run as root, or under systemd with a delegated cgroup: systemd-run --user --scope -p Delegate=yes bothy ..."
	adviceV1       = "run as root, or boot with cgroup v2 (kernel parameter systemd.unified_cgroup_hierarchy=1)"
	adviceBusy     = "run it in a cgroup of its own: systemd-run --user --scope -p Delegate=yes bothy ..."
	adviceBusyRoot = "run it in a cgroup of its own: systemd-run --scope -p Delegate=yes bothy ...; in a container, move what runs in it to a child cgroup first"
	adviceDelegate = "as root, delegate it: systemctl edit user@.service, add a [Service] section with Delegate=cpu memory pids, log in again"
	adviceReadOnly = "give this container a writable /sys/fs/cgroup"
	adviceMount    = "mount a cgroup file system on /sys/fs/cgroup"
	adviceNested   = "mount the caller's own cgroup on /sys/fs/cgroup"
)

func adviceFor(version int) string {
	if version == 1 {
		return adviceV1
	}
	return adviceV2
}

func byVersion(version int) string { return fmt.Sprintf("cgroup v%d", version) }

// planPlaces finds a place for each controller.
func (h *host) planPlaces(controllers []string) map[string]place {
	places := make(map[string]place, len(controllers))
	v, err := h.readView()
	if err != nil || !v.hasCgroups() {
		for _, c := range controllers {
			places[c] = place{refusal: refusal{"no cgroup file system is mounted", adviceMount}}
		}
		return places
	}
	var unified []string
	for _, c := range controllers {
		if dir, known := v.ownGroupV1(c); known {
			places[c] = h.placeV1(dir)
		} else {
			unified = append(unified, c)
		}
	}
	maps.Copy(places, h.placeV2(v, unified))
	return places
}

func (v view) hasCgroups() bool {
	return slices.ContainsFunc(v.mounts, func(m mount) bool {
		return m.kind == "cgroup" || m.kind == "cgroup2"
	})
}

// placeV1 checks the caller's own group in one hierarchy.
func (h *host) placeV1(own string) place {
	p := place{version: 1}
	if own == "" {
		p.refusal = refusal{"the caller's own cgroup is not visible", adviceNested}
		return p
	}
	if err := h.kernel.access(own); err != nil {
		p.refusal = h.unwritable(own, 1, err)
		return p
	}
	p.parent = own
	return p
}

func (h *host) unwritable(dir string, version int, err error) refusal {
	if errors.Is(err, unix.EROFS) {
		return refusal{fmt.Sprintf("cgroup %s is mounted read-only", dir), adviceReadOnly}
	}
	return refusal{fmt.Sprintf("cgroup %s is not delegated to this user", dir), adviceFor(version)}
}
