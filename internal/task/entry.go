package task

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// A list of others, a prd.json or boxes in Markdown, says less of a task than is known here, and
// agents write it. So what its entry said stays with the task, and an import takes over what it
// says otherwise since then, if that was not changed here, too.

// entryKey is where that is kept in a task's metadata, which Beads leaves as it is.
const entryKey = "bothy_entry"

// entry is what an entry of a list said when it was last taken over.
type entry struct {
	Said  map[string]string `json:"said"`            // by field, a hash; nil: that is not known
	Needs []string          `json:"needs,omitempty"` // what it waited for
	Unmet []string          `json:"unmet,omitempty"` // what the task does not wait for, although it says so
}

// entryField is what an entry says of a task, besides what it needs and whether it is done.
type entryField struct {
	name string
	text func(*Task) *string
}

const notesField = "notes"

var entryFields = []entryField{
	{"title", func(t *Task) *string { return &t.Title }},
	{"description", func(t *Task) *string { return &t.Description }},
	{"acceptance_criteria", func(t *Task) *string { return &t.AcceptanceCriteria }},
	{notesField, func(t *Task) *string { return &t.Notes }},
	{"priority", nil},
}

func (f entryField) get(t *Task) string {
	if f.text == nil {
		return strconv.Itoa(t.Priority)
	}
	return *f.text(t)
}

func (f entryField) set(t *Task, text string) {
	if f.text == nil {
		t.Priority, _ = strconv.Atoi(text) // get has written it
		return
	}
	*f.text(t) = text
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// needs are the tasks that a task waits for as one entry does for others.
func (t *Task) needs() (ids []string) {
	for i := range t.Dependencies {
		if d := &t.Dependencies[i]; d.Kind == Blocks {
			ids = append(ids, d.DependsOnID)
		}
	}
	return ids
}

// fromEntry makes a task one that was read from an entry of a list, and refuses what is too much.
func (t *Task) fromEntry() error {
	said := entry{Said: map[string]string{}, Needs: t.needs()}
	for _, f := range entryFields {
		said.Said[f.name] = hashOf(f.get(t))
	}
	t.listed = true
	if err := t.remember(said); err != nil {
		return err
	}
	return t.checkWhole()
}

// remembered is what a task knows of its entry.
func (t *Task) remembered() (e entry) {
	o, err := parseObject(t.Metadata)
	if err != nil || json.Unmarshal(o.values[entryKey], &e) != nil {
		return entry{} // it has none, or somebody has written metadata of their own
	}
	return e
}

// remember keeps what an entry says, beside what else there is in the metadata. Where there is
// something in it that is no object, nothing can be kept.
func (t *Task) remember(e entry) error {
	o := &object{values: map[string]json.RawMessage{}}
	if len(t.Metadata) > 0 && string(t.Metadata) != "null" {
		var err error
		if o, err = parseObject(t.Metadata); err != nil {
			return nil //nolint:nilerr // it is somebody's own
		}
	}
	value, err := json.Marshal(e)
	if err != nil {
		return err
	}
	o.set(entryKey, value)
	t.Metadata = o.encode()
	return nil
}

// renewal is a task of which an entry says something else than before.
type renewal struct {
	task      *Task
	said, was entry
	now       entry // what is to be known of it next time
	overwrite bool
	updated   bool
	kept      bool // something was changed here, too, and stays
}

// renew takes over what the entry of a task says otherwise, and gives the list that the task
// belongs to. What is closed here stays closed.
func (g *Graph) renew(old, t *Task, overwrite bool, now time.Time, taken *Taken) (*[]string, error) {
	if old.Status == Tombstone {
		return &taken.Same, nil
	}
	was := old.remembered()
	r := renewal{task: g.edit(old, now), said: t.remembered(), was: was, overwrite: overwrite, now: entry{Said: map[string]string{}, Needs: was.Needs}}
	maps.Copy(r.now.Said, was.Said)
	for _, f := range entryFields {
		r.field(f, f.get(t))
	}
	r.needs(now)
	switch done := t.done() && !old.done(); {
	case done && overwrite:
		r.task.Status, r.task.ClosedAt, r.task.CloseReason, r.updated = Closed, &now, t.CloseReason, true
		r.task.LeaseExpiresAt, r.task.HeartbeatAt = nil, nil
	case done:
		taken.Done = append(taken.Done, t.ID)
	}
	if _, _, held := old.Claimed(now); held {
		if r.updated {
			return &taken.Held, nil
		}
		return r.list(taken), nil
	}
	return r.list(taken), g.putRenewed(old, &r)
}

// field takes over a field.
func (r *renewal) field(f entryField, there string) {
	here, was := f.get(r.task), r.was.Said[f.name]
	mine := hashOf(here) != was
	switch {
	case r.said.Said[f.name] == was && !r.overwrite:
		return
	case here == there:
	case mine && !r.overwrite:
		r.kept = true
		return
	default:
		if f.name == notesField && mine { // whose they are is not known: none is lost
			there = withNote(here, there)
		}
		r.updated = r.updated || here != there
		f.set(r.task, there)
	}
	r.now.Said[f.name] = r.said.Said[f.name]
}

// AddNote adds a note behind those that there are.
func (t *Task) AddNote(text string) { t.Notes = joinNotes(t.Notes, text) }

func joinNotes(notes, more string) string { return strings.TrimLeft(notes+"\n"+more, "\n") }

func withNote(notes, more string) string {
	if strings.Contains(notes, more) {
		return notes
	}
	return joinNotes(notes, more)
}

// needs takes over what the entry waits for.
func (r *renewal) needs(now time.Time) {
	t, known := r.task, r.was.Said != nil
	has := t.needs()
	for _, id := range r.said.Needs {
		switch {
		case slices.Contains(has, id) || known && !r.overwrite && slices.Contains(r.was.Needs, id):
		case r.overwrite || known && !slices.Contains(r.was.Unmet, id):
			t.Dependencies = append(t.Dependencies, Dependency{TaskID: t.ID, DependsOnID: id, Kind: Blocks, CreatedAt: now})
			r.updated = true
		default:
			r.kept = true
			r.now.Unmet = append(r.now.Unmet, id)
		}
	}
	for _, id := range r.was.Needs {
		if !slices.Contains(r.said.Needs, id) && slices.Contains(has, id) {
			t.Dependencies = slices.DeleteFunc(t.Dependencies, func(d Dependency) bool { return d.Kind == Blocks && d.DependsOnID == id })
			r.updated = true
		}
	}
	r.now.Needs = slices.DeleteFunc(slices.Clone(r.said.Needs), func(id string) bool { return slices.Contains(r.now.Unmet, id) })
}

func (r *renewal) list(taken *Taken) *[]string {
	switch {
	case r.updated:
		return &taken.Updated
	case r.kept:
		return &taken.Older
	}
	return &taken.Same
}

// putRenewed keeps a task as it is now, and what its entry said.
func (g *Graph) putRenewed(old *Task, r *renewal) error {
	if !r.updated {
		r.task.UpdatedAt = old.UpdatedAt // nothing that anybody reads is other
	}
	if err := r.task.remember(r.now); err != nil {
		return err
	}
	if !r.updated && string(r.task.Metadata) == string(old.Metadata) {
		return nil
	}
	if err := r.task.checkWhole(); err != nil {
		return spec.Errorf(spec.ErrUsage, "%s: %w", old.ID, err).WithHint("nothing was taken over")
	}
	g.put(r.task)
	return nil
}
