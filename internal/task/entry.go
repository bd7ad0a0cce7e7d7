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

// A list from elsewhere, a prd.json or boxes in Markdown, has fewer fields than a task here, and agents
// write it. So the values of its entry stay with the task. An import takes over values that differ from
// the remembered ones, unless the task's own values were changed here, too.

// entryKey is the key of these values in a task's metadata, which Beads does not change.
const entryKey = "bothy_entry"

// entry holds the values of a list's entry at the last import.
type entry struct {
	Said  map[string]string `json:"said"`            // a hash by field; nil: unknown
	Needs []string          `json:"needs,omitempty"` // the tasks that the entry waited for
	Unmet []string          `json:"unmet,omitempty"` // those of the entry that the task itself does not wait for
}

// entryField is a field of an entry, besides its dependencies and whether it is done.
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
		t.Priority, _ = strconv.Atoi(text) // get has formatted it
		return
	}
	*f.text(t) = text
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// entryNeeds returns the tasks that a task waits for by dependencies of the kind that entries have.
func (t *Task) entryNeeds() (ids []string) {
	for i := range t.Dependencies {
		if d := &t.Dependencies[i]; d.Kind == Blocks {
			ids = append(ids, d.DependsOnID)
		}
	}
	return ids
}

// fromEntry marks a task as read from an entry of a list, and refuses one that is too large.
func (t *Task) fromEntry() error {
	said := entry{Said: map[string]string{}, Needs: t.entryNeeds()}
	for _, f := range entryFields {
		said.Said[f.name] = hashOf(f.get(t))
	}
	t.listed = true
	if err := t.remember(said); err != nil {
		return err
	}
	return t.checkWhole()
}

// remembered returns the values of the task's entry.
func (t *Task) remembered() (e entry) {
	o, err := parseObject(t.Metadata)
	if err != nil || json.Unmarshal(o.values[entryKey], &e) != nil {
		return entry{} // there is none, or the user has written their own metadata
	}
	return e
}

// remember keeps the values of an entry beside the other metadata. It cannot keep them if the
// metadata is not an object.
func (t *Task) remember(e entry) error {
	o := &object{values: map[string]json.RawMessage{}}
	if len(t.Metadata) > 0 && string(t.Metadata) != "null" {
		var err error
		if o, err = parseObject(t.Metadata); err != nil {
			return nil //nolint:nilerr // it belongs to another program
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

// renewal is a task whose entry has changed.
type renewal struct {
	task      *Task
	said, was entry
	now       entry // the values to remember for next time
	overwrite bool
	updated   bool
	kept      bool // some change that was made here was kept
}

// renewTask imports the changes of a task's entry, and returns the result list that the task
// belongs to. A task that is closed here stays closed.
func (g *Graph) renewTask(old, t *Task, overwrite bool, now time.Time, taken *Taken) (*[]string, error) {
	if old.Status == Tombstone {
		return &taken.Same, nil
	}
	was := old.remembered()
	r := renewal{task: old.editCopy(now), said: t.remembered(), was: was, overwrite: overwrite, now: entry{Said: map[string]string{}, Needs: was.Needs}}
	maps.Copy(r.now.Said, was.Said)
	for _, f := range entryFields {
		r.renewField(f, f.get(t))
	}
	r.renewNeeds(now)
	switch done := t.isDone() && !old.isDone(); {
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
		return r.resultList(taken), nil
	}
	return r.resultList(taken), g.putRenewed(old, &r)
}

// renewField imports a changed field.
func (r *renewal) renewField(f entryField, there string) {
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
		if f.name == notesField && mine { // their author is unknown, so keep both
			there = withNote(here, there)
		}
		r.updated = r.updated || here != there
		f.set(r.task, there)
	}
	r.now.Said[f.name] = r.said.Said[f.name]
}

// AddNote appends a note.
func (t *Task) AddNote(text string) { t.Notes = joinNotes(t.Notes, text) }

func joinNotes(notes, more string) string { return strings.TrimLeft(notes+"\n"+more, "\n") }

func withNote(notes, more string) string {
	if strings.Contains(notes, more) {
		return notes
	}
	return joinNotes(notes, more)
}

// renewNeeds imports the dependencies of the entry.
func (r *renewal) renewNeeds(now time.Time) {
	t, known := r.task, r.was.Said != nil
	has := t.entryNeeds()
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

func (r *renewal) resultList(taken *Taken) *[]string {
	switch {
	case r.updated:
		return &taken.Updated
	case r.kept:
		return &taken.Older
	}
	return &taken.Same
}

// putRenewed keeps the new state of a task, and the values of its entry.
func (g *Graph) putRenewed(old *Task, r *renewal) error {
	if !r.updated {
		r.task.UpdatedAt = old.UpdatedAt // only hidden metadata has changed
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
	g.putChanged(r.task)
	return nil
}
