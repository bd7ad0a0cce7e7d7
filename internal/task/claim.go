package task

import (
	"errors"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Bounds of a lease, and its default length.
const (
	MinLease   = time.Second
	MaxLease   = 30 * 24 * time.Hour
	UsualLease = 30 * time.Minute
)

// CheckLease refuses a lease that is too short or too long.
func CheckLease(lease time.Duration) error {
	if lease < MinLease || lease > MaxLease {
		return spec.Errorf(spec.ErrUsage, "a lease of %s: it is from %s to %d days", lease, MinLease, int(MaxLease.Hours()/24))
	}
	return nil
}

// CheckWho refuses an invalid holder's name.
func CheckWho(who string) error { return usageError(checkWord("name", who)) }

// Claim gives a task to a holder until the lease ends. For its current holder it extends the lease. The
// task must be ready, and must not belong to another; an expired claim does not count.
func (g *Graph) Claim(id, who string, lease time.Duration, now time.Time) (*Task, error) {
	if err := checkClaim(who, lease); err != nil {
		return nil, err
	}
	t, err := g.Find(id)
	if err != nil {
		return nil, err
	}
	if err := t.mustNotBeHeld(who, false, now); err != nil {
		return nil, err
	}
	if t.Status == Open && t.Assignee != "" && t.Assignee != who {
		return nil, spec.Errorf(spec.ErrConflict, "%s is assigned to %s", t.ID, t.Assignee).WithHint("bothy task update %s --assignee %s gives it to you", t.ID, who)
	}
	switch s := g.State(t, now); s.Reason {
	case ReasonNone, ReasonHuman, ReasonClaimed:
	case ReasonBlocked:
		return nil, spec.Errorf(spec.ErrConflict, "%s is blocked by %s", t.ID, s.Blockers[0].ID).WithHint("bothy task show %s tells which tasks it waits for", t.ID)
	default:
		return nil, spec.Errorf(spec.ErrConflict, "%s is not ready: %s", t.ID, s.Reason).WithHint("bothy task show %s tells more", t.ID)
	}
	return g.takeClaim(t, who, lease, now), nil
}

// ClaimNext gives a holder the first ready task of the filter. It skips tasks of others, and tasks
// with open parts: the parts come first. Without such a task the error is ErrNotFound.
func (g *Graph) ClaimNext(f *Filter, o Order, who string, lease time.Duration, now time.Time) (*Task, error) {
	if err := checkClaim(who, lease); err != nil {
		return nil, err
	}
	ready := g.Ready(f, o, now)
	for _, t := range ready {
		if t.isFreeFor(who, now) && g.openPart(t) == nil {
			return g.takeClaim(t, who, lease, now), nil
		}
	}
	err := spec.Errorf(spec.ErrNotFound, "no task is ready")
	if len(ready) > 0 {
		return nil, err.WithHint("%d are that are assigned to others, or have open parts", len(ready))
	}
	return nil, err.WithHint("bothy task ls tells what the others wait for")
}

// Free reports for a ready task whether no other holder has it assigned, and whether it is whole,
// that is without open parts. ClaimNext returns a task that is both.
func (g *Graph) Free(t *Task, who string, now time.Time) (free, whole bool) {
	return t.isFreeFor(who, now), g.openPart(t) == nil
}

func (t *Task) isFreeFor(who string, now time.Time) bool {
	return t.Assignee == "" || t.Assignee == who || t.expired(now)
}

func checkClaim(who string, lease time.Duration) error {
	if err := CheckWho(who); err != nil {
		return err
	}
	return CheckLease(lease)
}

func (g *Graph) takeClaim(t *Task, who string, lease time.Duration, now time.Time) *Task {
	n := t.editCopy(now)
	if t.StartedAt == nil || t.Assignee != who {
		n.StartedAt = &now
	}
	until := now.Add(lease)
	n.Status, n.Assignee, n.LeaseExpiresAt, n.HeartbeatAt = InProgress, who, &until, &now
	g.putChanged(n)
	return n
}

// Renew extends a claim to one lease from now. Only the holder may call it. A holder with an expired
// claim still may, unless another has taken the task.
func (g *Graph) Renew(id, who string, lease time.Duration, now time.Time) (*Task, error) {
	if err := checkClaim(who, lease); err != nil {
		return nil, err
	}
	t, err := g.heldBy(id, who)
	if err != nil {
		return nil, err
	}
	return g.takeClaim(t, who, lease, now), nil
}

// Release makes a task free again. Without force only its holder may call it.
func (g *Graph) Release(id, who string, force bool, now time.Time) (*Task, error) {
	t, err := g.Find(id)
	if err == nil && !(force && t.hasHolder()) {
		t, err = g.heldBy(id, who)
	}
	if err != nil {
		return nil, err
	}
	n := t.editCopy(now)
	n.Status, n.Assignee, n.StartedAt, n.LeaseExpiresAt, n.HeartbeatAt = Open, "", nil, nil, nil
	g.putChanged(n)
	return n, nil
}

// PutBack gives a task back with a note after its other notes. If the caller does not hold it, or
// no longer does, nothing changes: after a crash the call may be repeated.
func (g *Graph) PutBack(id, who, note string, now time.Time) (*Task, error) {
	t, err := g.heldBy(id, who)
	if errors.Is(err, spec.ErrConflict) {
		return g.Find(id)
	}
	if err == nil && note != "" {
		_, err = g.Update(id, who, false, now, func(t *Task) error {
			t.AddNote(note)
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	return g.Release(t.ID, who, false, now)
}

// heldBy returns a task that its holder works on.
func (g *Graph) heldBy(id, who string) (*Task, error) {
	t, err := g.Find(id)
	switch {
	case err != nil:
		return nil, err
	case !t.hasHolder():
		return nil, spec.Errorf(spec.ErrConflict, "%s is %s, and has no holder", t.ID, t.Status)
	case t.Assignee != who:
		return nil, spec.Errorf(spec.ErrConflict, "%s is held by %s, not by %s", t.ID, holder(t.Assignee), who)
	}
	return t, nil
}

// mustNotBeHeld refuses a task that another holder works on.
func (t *Task) mustNotBeHeld(who string, force bool, now time.Time) error {
	by, until, ok := t.Claimed(now)
	if !ok || by == who || force {
		return nil
	}
	span := "without end"
	if !until.IsZero() {
		span = "until " + until.Local().Format(time.DateTime)
	}
	return spec.Errorf(spec.ErrConflict, "%s is held by %s, %s", t.ID, holder(by), span).WithHint("wait for them, or take it from them: bothy task claim --release --force %s", t.ID)
}

func holder(who string) string {
	if who == "" {
		return "a holder without a name"
	}
	return who
}
