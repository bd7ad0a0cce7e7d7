package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

func (h *host) create(id string, asked, def spec.Limits, note func(string) error) (*Group, []spec.Enforcement, error) {
	name := prefix + id
	if !isName(name) {
		return nil, nil, fmt.Errorf("create cgroup: %q is not the id of a sandbox", id)
	}
	wishes := wishesOf(asked, def)
	places := h.planPlaces(controllersOf(wishes))
	if err := denied(wishes, places); err != nil {
		return nil, nil, err
	}
	if err := note(joinDirs(h.dirsFor(name, places))); err != nil {
		return nil, nil, fmt.Errorf("note where the cgroup will be: %w", err)
	}
	return h.buildGroup(name, wishes, places)
}

// checkLimits returns the error that create would return for requested limits, as far as it is known
// without making anything.
func (h *host) checkLimits(asked spec.Limits) error {
	wishes := wishesOf(asked, spec.Limits{})
	return denied(wishes, h.planPlaces(controllersOf(wishes)))
}

// denied returns the error for the first requested limit without a place.
func denied(wishes []wish, places map[string]place) error {
	for _, w := range wishes {
		if p := places[w.controller]; w.asked && p.parent == "" {
			return w.denied(p.refusal)
		}
	}
	return nil
}

// dirsFor lists the directories that a plan makes for a group.
func (h *host) dirsFor(name string, places map[string]place) (dirs []string) {
	for _, p := range places {
		if dir := filepath.Join(h.groupHome(p), name); p.parent != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// buildGroup carries out a plan. It removes directories in which no limit binds in the end.
func (h *host) buildGroup(name string, wishes []wish, places map[string]place) (*Group, []spec.Enforcement, error) {
	dirs, err := h.makeAll(name, places)
	if err != nil {
		h.discard(dirs, nil)
		return nil, nil, err
	}
	g := &Group{host: h}
	var report []spec.Enforcement
	for _, w := range wishes {
		e, refused := h.grantLimit(w, places[w.controller], dirs[w.controller])
		if w.asked && refused != nil {
			h.discard(dirs, nil)
			return nil, nil, w.denied(*refused)
		}
		if dir := dirs[w.controller]; e.Enforced && !slices.Contains(g.dirs, dir) {
			g.dirs = append(g.dirs, dir)
		}
		if w.limit != "" {
			report = append(report, e)
		}
	}
	h.discard(dirs, g.dirs)
	return g, report, nil
}

// makeAll makes the group's directory for each controller that has a place. If the kernel refuses a
// controller, the controller loses its place, with the reason. The only error is that the group is in
// use.
func (h *host) makeAll(name string, places map[string]place) (map[string]string, error) {
	dirs := make(map[string]string)
	done := make(map[string]error) // by directory: v1 hierarchies and v2 are shared
	for _, c := range slices.Sorted(maps.Keys(places)) {
		p := places[c]
		if p.parent == "" {
			continue
		}
		dir := filepath.Join(h.groupHome(p), name)
		err, known := done[dir]
		if !known {
			err = h.makeDir(p, dir)
			done[dir] = err
		}
		if errors.Is(err, spec.ErrConflict) {
			return dirs, err
		}
		if err == nil {
			dirs[c] = dir
			err = h.handOn(p, c)
		}
		if err != nil {
			places[c] = place{version: p.version, refusal: refusal{err.Error(), adviceFor(p.version)}}
		}
	}
	return dirs, nil
}

// grantLimit sets one limit and reports the result; refused is nil if it binds.
func (h *host) grantLimit(w wish, p place, dir string) (e spec.Enforcement, refused *refusal) {
	e = spec.Enforcement{Limit: w.limit, Value: w.value}
	if p.parent == "" {
		e.Reason = p.reason
		return e, &p.refusal
	}
	caveat, err := w.set(h, p.version, dir)
	if err != nil {
		e.Reason = err.Error()
		return e, &refusal{e.Reason, adviceFor(p.version)}
	}
	e.Enforced, e.By, e.Reason = true, byVersion(p.version), caveat
	return e, nil
}

// discard removes the directories in dirs that are not in keep.
func (h *host) discard(dirs map[string]string, keep []string) {
	for _, dir := range dirs {
		if !slices.Contains(keep, dir) {
			h.remove(dir, time.Now()) //nolint:errcheck // an empty group does no harm and is found again by its name
		}
	}
}

// denied returns the error for a requested limit that cannot be enforced.
func (w wish) denied(r refusal) error {
	op := fmt.Sprintf("limit %s to %s", w.limit, w.value)
	return &spec.Error{Class: spec.ErrSandbox, Op: op, Err: errors.New(r.reason), Hint: r.fix}
}
