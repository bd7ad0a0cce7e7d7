package task

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// stories returns a prd.json with one story, and another one that it may need.
func stories(t testing.TB, fields string, at time.Time) []*Task {
	t.Helper()
	f, err := ReadStories([]byte(`{"userStories": [{"id": "a", "title": "other"}, {"id": "b", "title": "other, too"}, {"id": "s", `+fields+`}]}`), at)
	must(t, err)
	return f.Tasks
}

// takeStory imports a list, and returns the result for the one story.
func takeStory(t testing.TB, g *Graph, list []*Task, overwrite bool, now time.Time) (what string, x *Task, done []string) {
	t.Helper()
	taken, err := g.Import(list, overwrite, now)
	must(t, err)
	for word, ids := range map[string][]string{"added": taken.Added, "updated": taken.Updated, "same": taken.Same, "older": taken.Older, "held": taken.Held} {
		if slices.Contains(ids, "s") {
			what += word
		}
	}
	x, err = g.Find("s")
	must(t, err)
	return what, x, taken.Done
}

// TestEntryAgain checks that changes of an entry are taken over, field by field, unless the field was
// changed here. Nothing else changes: whatever the time of the file, no task is reopened, or closed
// without a request, and no labels or notes are lost.
func TestEntryAgain(t *testing.T) {
	const before = `"title": "t", "description": "d", "acceptanceCriteria": ["c"], "priority": 1, "notes": "n", "needs": ["a"]`
	for name, c := range map[string]struct {
		here      func(*Task)        // changes the task here
		link      func(*Graph) error // likewise
		file      string             // the file's new content; empty: unchanged
		overwrite bool
		what      string
		want      func(*Task) // the wanted task, apart from the import's marks
		done      bool
	}{
		"nothing": {what: "same"},
		"here alone": {
			here: func(t *Task) { t.Title, t.Priority, t.Notes, t.Labels = "mine", 0, "n\nfound it", []string{"human"} },
			what: "same",
			want: func(t *Task) { t.Title, t.Priority, t.Notes, t.Labels = "mine", 0, "n\nfound it", []string{"human"} },
		},
		"closed here": {
			here: func(t *Task) { t.Status, t.ClosedAt, t.CloseReason = Closed, &noon, "done" },
			what: "same",
			want: func(t *Task) { t.Status, t.ClosedAt, t.CloseReason = Closed, &noon, "done" },
		},
		"closed here, other there, and all of it": {
			here: func(t *Task) { t.Status, t.ClosedAt, t.CloseReason = Closed, &noon, "done" },
			file: strings.Replace(before, `"d"`, `"e"`, 1), overwrite: true,
			what: "updated",
			want: func(t *Task) { t.Status, t.ClosedAt, t.CloseReason, t.Description = Closed, &noon, "done", "e" },
		},
		"there alone": {
			file: `"title": "u", "description": "e", "acceptanceCriteria": [], "priority": 3, "notes": "m", "needs": ["b"]`,
			what: "updated",
			want: func(t *Task) {
				t.Title, t.Description, t.AcceptanceCriteria, t.Priority, t.Notes = "u", "e", "", 3, "m"
				t.Dependencies[0].DependsOnID = "b"
			},
		},
		"one field here, another there": {
			here: func(t *Task) { t.Title, t.Labels = "mine", []string{"human"} },
			file: strings.Replace(before, `"d"`, `"e"`, 1),
			what: "updated",
			want: func(t *Task) { t.Title, t.Labels, t.Description = "mine", []string{"human"}, "e" },
		},
		"the same field here and there": {
			here: func(t *Task) { t.Title, t.Notes = "mine", "n\nfound it" },
			file: strings.NewReplacer(`"t"`, `"u"`, `"n"`, `"m"`).Replace(before),
			what: "older",
			want: func(t *Task) { t.Title, t.Notes = "mine", "n\nfound it" },
		},
		"the same field here and there, and all of it": {
			here: func(t *Task) { t.Title, t.Notes, t.Labels = "mine", "n\nfound it", []string{"human"} },
			file: strings.NewReplacer(`"t"`, `"u"`, `"n"`, `"m"`).Replace(before), overwrite: true,
			what: "updated",
			want: func(t *Task) { t.Title, t.Notes, t.Labels = "u", "n\nfound it\nm", []string{"human"} },
		},
		"alike here and there": {
			here: func(t *Task) { t.Title = "u" },
			file: strings.Replace(before, `"t"`, `"u"`, 1),
			what: "same",
			want: func(t *Task) { t.Title = "u" },
		},
		"done there": {
			file: before + `, "passes": true`,
			what: "same", done: true,
		},
		"done there, and all of it": {
			file: before + `, "passes": true`, overwrite: true,
			what: "updated",
			want: func(t *Task) { t.Status, t.CloseReason = Closed, "passes, by the file" },
		},
		"held here, other there": {
			here: func(t *Task) { t.Status, t.Assignee = InProgress, "ann" },
			file: strings.Replace(before, `"t"`, `"u"`, 1) + `, "passes": true`, overwrite: true,
			what: "held",
			want: func(t *Task) { t.Status, t.Assignee = InProgress, "ann" },
		},
		"needs less here": {
			link: func(g *Graph) error { _, err := g.Unlink("s", "a", "", noon); return err },
			file: strings.Replace(before, `"d"`, `"e"`, 1),
			what: "updated",
			want: func(t *Task) { t.Description, t.Dependencies = "e", nil },
		},
		"needs more here": {
			link: func(g *Graph) error { _, err := g.Link("s", Link{Kind: Blocks, On: "b"}, "ann", noon); return err },
			file: strings.Replace(before, `["a"]`, `[]`, 1),
			what: "updated",
			want: func(t *Task) { t.Dependencies[0].DependsOnID = "b" },
		},
		"deleted here": {
			here: func(t *Task) { t.Status = Tombstone },
			file: strings.Replace(before, `"t"`, `"u"`, 1) + `, "passes": true`, overwrite: true,
			what: "same",
			want: func(t *Task) { t.Status = Tombstone },
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewGraph()
			if what, _, _ := takeStory(t, g, stories(t, before, noon), false, noon); what != "added" {
				t.Fatalf("it is %s", what)
			}
			x, _ := g.Find("s")
			want := *x
			want.Dependencies = slices.Clone(x.Dependencies)
			if c.want != nil {
				c.want(&want)
			}
			if c.here != nil {
				n := x.editCopy(noon.Add(time.Minute))
				c.here(n)
				g.putChanged(n)
			}
			if c.link != nil {
				must(t, c.link(g))
			}
			file := c.file
			if file == "" {
				file = before
			}
			later := noon.Add(time.Hour)
			what, _, done := takeStory(t, g, stories(t, file, later), c.overwrite, later)
			if what != c.what || slices.Contains(done, "s") != c.done {
				t.Errorf("it is %s, and done there are %q", what, done)
			}
			same(t, g, &want)
			again := c.what
			if again == "updated" {
				again = "same"
			}
			if what, _, _ := takeStory(t, g, stories(t, file, later.Add(time.Hour)), c.overwrite, later); what != again {
				t.Errorf("the next time it is %s", what)
			}
			same(t, g, &want)
		})
	}
}

// same compares a task of a graph with the wanted one, apart from times and origin.
func same(t testing.TB, g *Graph, want *Task) {
	t.Helper()
	plain := func(x *Task) string {
		var on []string
		for _, d := range x.Dependencies {
			on = append(on, string(d.Kind)+" "+d.DependsOnID)
		}
		c := Task{ID: x.ID, Title: x.Title, Description: x.Description, AcceptanceCriteria: x.AcceptanceCriteria, Notes: x.Notes, Status: x.Status, Priority: x.Priority, Type: x.Type, Assignee: x.Assignee, CloseReason: x.CloseReason, Labels: x.Labels}
		return fmt.Sprintf("%+v, on %q", c, on)
	}
	x, err := g.Find(want.ID)
	must(t, err)
	if got := plain(x); got != plain(want) {
		t.Errorf("it is\n%s, not\n%s", got, plain(want))
	}
}

// TestEntryOfTaskThatIsThere checks a task that is not known to come from the list, because an earlier
// Bothy imported it, or because the ID is equal by chance. It stays unchanged. Fields that are equal
// follow the list from then on.
func TestEntryOfTaskThatIsThere(t *testing.T) {
	g := loaded(on("a"), on("b"), on("s", "blocks", "b"))
	what, x, done := takeStory(t, g, stories(t, `"title": "taken", "priority": 0, "passes": true`, noon), false, noon)
	if what != "older" || x.Title != "s" || x.Status != Open || !slices.Equal(done, []string{"s"}) {
		t.Errorf("it is %s: %+v, done there are %q", what, x, done)
	}
	if what, x, _ = takeStory(t, g, stories(t, `"title": "taken", "priority": 1, "needs": ["a"]`, noon), false, noon); what != "updated" || x.Title != "s" || x.Priority != 1 || !slices.Equal(x.entryNeeds(), []string{"b", "a"}) {
		t.Errorf("it is %s: %+v", what, x)
	}
}

// TestEntryNotWaitedFor checks a dependency of an entry that an existing task does not have: each import
// reports it, and does not add it.
func TestEntryNotWaitedFor(t *testing.T) {
	g := loaded(on("a"), on("b"), on("s"))
	for range 3 {
		if what, x, _ := takeStory(t, g, stories(t, `"title": "s", "needs": ["a"]`, noon), false, noon); what != "older" || len(x.entryNeeds()) > 0 {
			t.Errorf("it is %s: %+v", what, x)
		}
	}
	if what, x, _ := takeStory(t, g, stories(t, `"title": "s", "needs": ["a", "b"]`, noon), false, noon); what != "updated" || !slices.Equal(x.entryNeeds(), []string{"b"}) {
		t.Errorf("it is %s: %+v", what, x)
	}
	if what, x, _ := takeStory(t, g, stories(t, `"title": "s", "needs": ["a", "b"]`, noon), true, noon); what != "updated" || !slices.Equal(x.entryNeeds(), []string{"b", "a"}) {
		t.Errorf("by force it is %s: %+v", what, x)
	}
}

// TestEntryInMetadata checks that the values of a task's entry are in its metadata, beside the
// user's own, and are exported with it.
func TestEntryInMetadata(t *testing.T) {
	g := NewGraph()
	const one, two = `"title": "t", "needs": ["a"]`, `"title": "t", "description": "d", "needs": ["a"]`
	_, x, _ := takeStory(t, g, stories(t, one, noon), false, noon)
	_, err := g.Update("s", "ann", false, noon, func(t *Task) error {
		t.Metadata = json.RawMessage(`{"a":[1,2.0],` + string(t.Metadata[1:]))
		return nil
	})
	must(t, err)
	list, err := read([]byte(written(t, g)))
	must(t, err)
	other := NewGraph()
	_, err = other.Import(list, false, noon)
	must(t, err)
	what, y, _ := takeStory(t, other, stories(t, two, noon), false, noon)
	if what != "updated" || y.Description != "d" || !strings.HasPrefix(string(y.Metadata), `{"a":[1,2.0],"bothy_entry":{`) {
		t.Errorf("it is %s: %+v with %s", what, y, y.Metadata)
	}
	if !reflect.DeepEqual(x.remembered().Needs, []string{"a"}) {
		t.Errorf("it knows %+v", x.remembered())
	}
	for _, odd := range []string{`[1]`, `"s"`, `{"bothy_entry":1}`, `{"bothy_entry":{"said":{"title":1}}}`} { // the user's own
		_, err = other.Update("s", "ann", false, noon, func(t *Task) error { t.Metadata = json.RawMessage(odd); return nil })
		must(t, err)
		if what, y, _ = takeStory(t, other, stories(t, `"title": "other"`, noon), false, noon); what != "older" || y.Title != "t" {
			t.Errorf("with %s it is %s: %+v", odd, what, y)
		}
	}
}

// TestTickedBox checks that a ticked box closes no open task here; new tasks are as in the list.
func TestTickedBox(t *testing.T) {
	g := NewGraph()
	list := func(text string) []*Task {
		f, err := ReadBoxes([]byte(text), noon.Add(time.Hour))
		must(t, err)
		return f.Tasks
	}
	_, err := g.Import(list("- [ ] one\n- [ ] two\n- [x] three\n"), false, noon)
	must(t, err)
	_, _, err = g.Close(list("- [ ] two")[0].ID, "ann", End{}, noon)
	must(t, err)
	again := list("- [x] one\n- [ ] two\n- [ ] three\n- [x] four\n")
	taken, err := g.Import(again, false, noon)
	must(t, err)
	if len(taken.Same) != 3 || len(taken.Added) != 1 || !slices.Equal(taken.Done, ids(again[:1])) {
		t.Errorf("taken over: %+v", taken)
	}
	for n, want := range []Status{Open, Closed, Closed, Closed} {
		if x, _ := g.Find(again[n].ID); x.Status != want {
			t.Errorf("%s is %s", x.Title, x.Status)
		}
	}
	taken, err = g.Import(again, true, noon)
	must(t, err)
	if x, _ := g.Find(again[0].ID); x.Status != Closed || len(taken.Updated) != 1 || len(taken.Done) != 0 {
		t.Errorf("with all of it %s is %s: %+v", x.Title, x.Status, taken)
	}
}
