package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/shop"
)

// This file has what a run that is over was to remove, and did not: its process was killed
// after it had written down the end. Nothing of the user's is in such sandboxes.

// left are the names of the sandboxes that a flow has left behind.
func (l *flowing) left() []string {
	if l.hosted || !l.clears() {
		return nil
	}
	copies := l.plan.Copies() // which wait for a person
	var ids []string
	for _, room := range slices.Sorted(maps.Keys(l.plan.Sandboxes)) {
		id := l.plan.Sandboxes[room]
		if slices.Contains(copies, room) || !l.state.Ready && l.engine.Store.Sandbox(id).MayHaveStarted() {
			continue // of one that never was ready: somebody's by now
		}
		ids = append(ids, id)
	}
	return thereOf(l.engine, ids)
}

// clears tells whether a flow that stands so is to have no sandboxes any more.
func (l *flowing) clears() bool {
	if l.run.Gone() {
		return l.takes()
	}
	return l.state.Over() && l.plan.Remove
}

// left are those of workers that a loop has left behind.
func (l *looping) left() []string {
	if l.hosted || !l.state.Ready || !l.state.Status.Final() {
		return nil
	}
	var ids []string
	for _, at := range workplaces(l.state) {
		ids = append(ids, at.ID)
	}
	return thereOf(l.engine, ids)
}

// thereOf names those of some sandboxes that are there.
func thereOf(e *engine.Engine, ids []string) (names []string) {
	for _, id := range ids {
		if _, err := os.Lstat(e.Store.Sandbox(id).Dir); err != nil {
			continue
		}
		name := id
		if sb, err := e.Store.Load(id); err == nil {
			name = cmp.Or(sb.Name, id)
		}
		names = append(names, name)
	}
	return names
}

// leftRow says what a run has left behind, and what removes it.
func leftRow(r *run.Run, names []string) [][2]string {
	if len(names) == 0 {
		return nil
	}
	if r.Gone() {
		return [][2]string{{"left", fmt.Sprintf("%s: bothy %s rm %s removes that", strings.Join(names, ", "), r.Kind, r.ID)}}
	}
	return [][2]string{{"left", fmt.Sprintf("%s, which it was to remove: bothy %s resume %s does it, bothy %s rm %s removes the run, too", strings.Join(names, ", "), r.Kind, r.ID, r.Kind, r.ID)}}
}

// tidyFlow does what is left to do of a flow that is over, such as to write a draft down, and
// ends as that has.
func (a *app) tidyFlow(ctx context.Context, l *flowing, h *run.Host, names []string) error {
	var err error
	if l.state.Ready {
		err = clearFlow(ctx, l.engine, &l.plan, l.state)
	} else {
		_, err = l.untouched()
	}
	if err != nil {
		return err
	}
	if len(names) > 0 {
		a.Note("removed what the flow had left: %s", strings.Join(names, ", "))
	}
	n := engine.Notice{Run: l.run.ID, Kind: l.run.Kind, Directory: l.plan.Directory}
	if err := a.carried(ctx, l.engine, h, flowStopped(n, l.state), l.state.ExitCode(), func() (any, error) { return l.view(), nil }); err != nil {
		return err
	}
	return a.writeDraft(&l.plan, l.run, l.state)
}

// tidyLoop does that of a loop.
func (a *app) tidyLoop(ctx context.Context, l *looping, h *run.Host, names []string) error {
	if err := shop.Unmake(l.engine, workplaces(l.state)); err != nil {
		return err
	}
	a.Note("removed what the loop had left: %s", strings.Join(names, ", "))
	return a.carried(ctx, l.engine, h, stopped(l.notice(), l.state), l.state.ExitCode(), func() (any, error) { return l.view(), nil })
}
