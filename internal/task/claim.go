package task

import (
	"errors"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Bounds of a lease, and how long one is unless it is said.
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

// CheckWho refuses a name that nobody can hold a task by.
func CheckWho(who string) error { return usage(checkWord("name", who)) }

// Claim gives a task to somebody for as long as the lease. Who holds it already is
// given it for longer. It must be ready, and not be somebody else's; a claim that
// has run out is nobody's.
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
		return nil, spec.Errorf(spec.ErrConflict, "%s is blocked by %s", t.ID, s.Blockers[0].ID).WithHint("bothy task show %s tells what it waits for", t.ID)
	default:
		return nil, spec.Errorf(spec.ErrConflict, "%s is not ready: %s", t.ID, s.Reason).WithHint("bothy task show %s tells more", t.ID)
	}
	return g.take(t, who, lease, now), nil
}

// ClaimNext gives somebody the first ready task that is chosen, nobody else's, and
// not a whole with open parts: these are what there is to do. If there is none the
// error is ErrNotFound.
func (g *Graph) ClaimNext(f *Filter, o Order, who string, lease time.Duration, now time.Time) (*Task, error) {
	if err := checkClaim(who, lease); err != nil {
		return nil, err
	}
	ready := g.Ready(f, o, now)
	for _, t := range ready {
		if t.free(who, now) && g.openPart(t) == nil {
			return g.take(t, who, lease, now), nil
		}
	}
	err := spec.Errorf(spec.ErrNotFound, "no task is ready")
	if len(ready) > 0 {
		return nil, err.WithHint("%d are that are assigned to others, or have open parts", len(ready))
	}
	return nil, err.WithHint("bothy task ls tells what the others wait for")
}

// Free tells of a ready task whether it is assigned to nobody else, and whether it is
// whole, that is without open parts: ClaimNext gives what is both.
func (g *Graph) Free(t *Task, who string, now time.Time) (free, whole bool) {
	return t.free(who, now), g.openPart(t) == nil
}

func (t *Task) free(who string, now time.Time) bool {
	return t.Assignee == "" || t.Assignee == who || t.expired(now)
}

func checkClaim(who string, lease time.Duration) error {
	if err := CheckWho(who); err != nil {
		return err
	}
	return CheckLease(lease)
}

func (g *Graph) take(t *Task, who string, lease time.Duration, now time.Time) *Task {
	n := g.edit(t, now)
	if t.StartedAt == nil || t.Assignee != who {
		n.StartedAt = &now
	}
	until := now.Add(lease)
	n.Status, n.Assignee, n.LeaseExpiresAt, n.HeartbeatAt = InProgress, who, &until, &now
	g.put(n)
	return n
}

// Renew makes a claim last as long as the lease from now on. It is for who holds
// the task; one whose claim has run out still does, as long as nobody else has
// taken it.
func (g *Graph) Renew(id, who string, lease time.Duration, now time.Time) (*Task, error) {
	if err := checkClaim(who, lease); err != nil {
		return nil, err
	}
	t, err := g.heldBy(id, who)
	if err != nil {
		return nil, err
	}
	return g.take(t, who, lease, now), nil
}

// Release gives a task back, so that anybody can take it. Without force it is for
// who holds it.
func (g *Graph) Release(id, who string, force bool, now time.Time) (*Task, error) {
	t, err := g.Find(id)
	if err == nil && !(force && t.taken()) {
		t, err = g.heldBy(id, who)
	}
	if err != nil {
		return nil, err
	}
	n := g.edit(t, now)
	n.Status, n.Assignee, n.StartedAt, n.LeaseExpiresAt, n.HeartbeatAt = Open, "", nil, nil, nil
	g.put(n)
	return n, nil
}

// PutBack gives a task back with a note behind those that it has. If somebody does not
// hold it, or no more, nothing changes: after a crash they may do it again.
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

// heldBy gives a task that somebody works on.
func (g *Graph) heldBy(id, who string) (*Task, error) {
	t, err := g.Find(id)
	switch {
	case err != nil:
		return nil, err
	case !t.taken():
		return nil, spec.Errorf(spec.ErrConflict, "%s is %s: nobody holds it", t.ID, t.Status)
	case t.Assignee != who:
		return nil, spec.Errorf(spec.ErrConflict, "%s is held by %s, not by %s", t.ID, holder(t.Assignee), who)
	}
	return t, nil
}

// mustNotBeHeld refuses what somebody else works on.
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
		return "somebody without a name"
	}
	return who
}
