package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// read returns the tasks of an issues.jsonl.
func read(data []byte) ([]*Task, error) {
	f, err := ReadIssues(data)
	if err != nil {
		return nil, err
	}
	return f.Tasks, nil
}

func fixture(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "issues.jsonl"))
	must(t, err)
	return data
}

func imported(t testing.TB, data []byte) *Graph {
	t.Helper()
	list, err := read(data)
	must(t, err)
	g := NewGraph()
	_, err = g.Import(list, false, noon)
	must(t, err)
	return g
}

func written(t testing.TB, g *Graph) string {
	t.Helper()
	var b strings.Builder
	must(t, g.Write(&b))
	return b.String()
}

// TestRoundTrip checks that unchanged tasks are exported as they were imported, byte by byte.
func TestRoundTrip(t *testing.T) {
	data := string(fixture(t))
	g := imported(t, []byte(data))
	if got := written(t, g); got != data {
		t.Errorf("written is\n%s", got)
	}
	wantReady(t, g, "acme-3kq.2", "acme-3kq") // the claim on the first is over, the others wait
}

// TestUnknownStays checks that a changed task keeps its unknown fields, in tasks, dependencies and
// comments.
func TestUnknownStays(t *testing.T) {
	g := imported(t, fixture(t))
	for _, x := range g.All() {
		_, err := g.Update(x.ID, "ann", true, noon, func(t *Task) error { t.Title += "!"; t.Labels = append(t.Labels, "new"); return nil })
		must(t, err)
	}
	_, err := g.Link("acme-3kq.2", Link{Kind: Related, On: "acme-p"}, "ann", noon)
	must(t, err)
	before := strings.Split(strings.TrimSpace(string(fixture(t))), "\n")
	for i, line := range strings.Split(strings.TrimSpace(written(t, g)), "\n") {
		var was, is map[string]json.RawMessage
		must(t, json.Unmarshal([]byte(before[i]), &was))
		must(t, json.Unmarshal([]byte(line), &is))
		for key, value := range was {
			switch key {
			case "title", "updated_at", "labels":
				continue
			case "dependencies":
				var x, y []json.RawMessage
				must(t, json.Unmarshal(value, &x))
				must(t, json.Unmarshal(is[key], &y))
				if !reflect.DeepEqual(x, y[:len(x)]) {
					t.Errorf("dependencies are %s, were %s", y, x)
				}
				continue
			}
			if !sameJSON(t, value, is[key]) {
				t.Errorf("%s: %s is %s, was %s", was["id"], key, is[key], value)
			}
		}
		again, err := Parse([]byte(line))
		must(t, err)
		if !strings.HasSuffix(again.Title, "!") || !slices.Contains(again.Labels, "new") {
			t.Errorf("the change is lost: %s", line)
		}
	}
}

// TestTakenAway checks that a removed field is gone from the task's document.
func TestTakenAway(t *testing.T) {
	g := imported(t, fixture(t))
	_, err := g.Release("acme-3kq.2", "worker-1", false, noon)
	must(t, err)
	_, err = g.Reopen("acme-3kq.1", noon)
	must(t, err)
	g = imported(t, []byte(written(t, g)))
	for _, id := range []string{"acme-3kq.1", "acme-3kq.2"} {
		x, err := g.Find(id)
		must(t, err)
		if x.Assignee != "" || x.LeaseExpiresAt != nil || x.HeartbeatAt != nil || x.StartedAt != nil || x.ClosedAt != nil || x.CloseReason != "" || x.ClosedBySession != "" || x.Status != Open {
			t.Errorf("it is %+v", x)
		}
	}
}

// sameJSON compares documents. Numbers are compared as text.
func sameJSON(t testing.TB, a, b []byte) bool {
	decode := func(data []byte) (v any) {
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.UseNumber()
		must(t, d.Decode(&v))
		return v
	}
	return len(b) > 0 && reflect.DeepEqual(decode(a), decode(b))
}

func TestImportAgain(t *testing.T) {
	g := imported(t, fixture(t))
	list, err := read(fixture(t))
	must(t, err)
	taken, err := g.Import(list, true, noon)
	must(t, err)
	if len(taken.Same) != len(list) {
		t.Errorf("taken over: %+v", taken)
	}
	const (
		old   = `{"id":"acme-7yg","title":"older","priority":1,"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}`
		newer = `{"id":"acme-p","title":"newer","priority":1,"created_at":"2026-01-01T00:00:00Z","updated_at":"2027-01-01T00:00:00Z"}`
		taker = `{"id":"acme-3kq.2","title":"thief","priority":1,"status":"closed","created_at":"2026-01-01T00:00:00Z","updated_at":"2027-01-01T00:00:00Z"}`
	)
	list, err = read([]byte(old + "\n\n" + newer + "\r\n" + taker))
	must(t, err)
	_, err = g.Claim("acme-3kq.2", "ann", time.Hour, noon)
	must(t, err)
	taken, err = g.Import(list, false, noon)
	must(t, err)
	want := Taken{Added: []string{}, Updated: []string{"acme-p"}, Same: []string{}, Older: []string{"acme-7yg"}, Held: []string{"acme-3kq.2"}, Done: []string{}}
	if !reflect.DeepEqual(taken, want) {
		t.Errorf("taken over: %+v", taken)
	}
	taken, err = g.Import(list[:1], true, noon)
	must(t, err)
	if x, _ := g.Find("acme-7yg"); x.Title != "older" || x.Priority != 1 || x.Status != Open || x.Type != "task" || len(taken.Updated) != 1 {
		t.Errorf("overwritten is %+v", x)
	}
}

func TestReadRefuses(t *testing.T) {
	const rest = `,"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}`
	good := `{"id":"a-1","title":"x"` + rest
	for text, want := range map[string]string{
		"nonsense":                       "line 1",
		good + "\n[]":                    "line 2: no JSON object",
		good + "\n<<<<<<< HEAD\n":        "a conflict that git left",
		good + "\n" + good:               "a-1 occurs in line 1 and in line 2",
		good + good:                      "more than one",
		`{"id":"a-1","title":" "` + rest: "title",
		`{"id":"a-1","title":"` + strings.Repeat("é", 501) + `"` + rest: "501 characters",
		`{"id":"","title":"x"` + rest:                                   "not the ID",
		`{"id":"a b","title":"x"` + rest:                                "not the ID",
		`{"id":"a\u001b[2J","title":"x"` + rest:                         "not the ID",
		`{"id":"-C","title":"x"` + rest:                                 "not the ID",
		`{"id":"a-1","title":"x","priority":5` + rest:                   "priority 5",
		`{"id":"a-1","title":"x","priority":"high"` + rest:              "priority",
		`{"id":"a-1","title":"x","estimated_minutes":-1` + rest:         "minutes",
		`{"id":"a-1","title":"x","labels":["a\nb"]` + rest:              "not a valid label",
		`{"id":"a-1","title":"x","status":"\u0007"` + rest:              "not a valid status",
		`{"id":"a-1","Title":"y","title":"x"` + rest:                    `"title" is meant`,
		`{"id":"a-1","title":"x","created_at":"yesterday"}`:             "line 1",
		"{\"id\":\"a-1\",\"title\":\"\xff\"" + rest:                     "UTF-8",
		`{"id":"a-1","title":"x","dependencies":[{"issue_id":"a-2","depends_on_id":"a-3","type":"blocks","created_at":"2026-01-01T00:00:00Z"}]` + rest: "another task",
		`{"id":"a-1","title":"x","dependencies":[{"issue_id":"a-1","depends_on_id":"a-3","type":"","created_at":"2026-01-01T00:00:00Z"}]` + rest:       "kind",
		`{"id":"a-1","title":"x","description":"` + strings.Repeat("x", MaxDocument) + `"` + rest:                                                      "at most",
	} {
		if _, err := read([]byte(text)); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, not %q", text, err, want)
		}
	}
}

// TestReadRecords reads the records of newer Beads: the form of the file first, and the agents'
// memories beside tasks.
func TestReadRecords(t *testing.T) {
	const task = `{"_type":"issue","id":"a-1","title":"x","status":"open","priority":2,"issue_type":"task","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","dependency_count":0,"comment_count":0}`
	for _, head := range []string{"", `{"_schema":"beads-jsonl/1"}` + "\n", `{"_schema":"beads-jsonl/1.2"}` + "\n"} {
		f, err := ReadIssues([]byte(head + task + "\n" + `{"_type":"memory","key":"k","value":"v"}` + "\n" + `{"_type":"memory","key":"l","value":"v"}`))
		must(t, err)
		if len(f.Tasks) != 1 || f.Tasks[0].ID != "a-1" || !slices.Equal(f.Passed, []string{`records of the type "memory"`}) {
			t.Errorf("%q: %+v", head, f)
		}
		if doc, err := f.Tasks[0].Encode(); err != nil || string(doc) != task {
			t.Errorf("it is written as %s, %v", doc, err)
		}
	}
	for _, bad := range []string{`{"_schema":"beads-jsonl/2"}`, `{"_schema":"beads-jsonl/10"}`, `{"_schema":"x"}`, `{"_schema":1}`, `{"_type":1}`, `{"_type":"issue"}`} {
		if f, err := ReadIssues([]byte(bad + "\n" + task)); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s: %+v, %v", bad, f, err)
		}
	}
}

func TestImportRefusesCircles(t *testing.T) {
	line := func(id, on string) string {
		return `{"id":"` + id + `","title":"x","dependencies":[{"issue_id":"` + id + `","depends_on_id":"` + on + `","type":"blocks","created_at":"2026-01-01T00:00:00Z"}]}` + "\n"
	}
	list, err := read([]byte(line("a-1", "a-2") + line("a-2", "a-3") + line("a-3", "a-1") + line("a-4", "a-1")))
	must(t, err)
	_, err = NewGraph().Import(list, false, noon)
	if !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "a-1 → a-2 → a-3 → a-1") {
		t.Errorf("%v", err)
	}
	list, err = read([]byte(line("a-1", "a-1")))
	must(t, err)
	if _, err = NewGraph().Import(list, false, noon); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a task that waits for itself: %v", err)
	}
}

func TestIDs(t *testing.T) {
	g := NewGraph()
	for n := range 1502 {
		if want := map[int]int{0: 4, 500: 4, 501: 5, 1500: 5, 1501: 6}[n]; want > 0 {
			x, err := g.Add(Task{Title: "x"}, "", nil, "ann", noon)
			must(t, err)
			if !strings.HasPrefix(x.ID, "bd-") || len(x.ID) != want+len("bd-") {
				t.Errorf("of %d tasks one is called %s", n, x.ID)
			}
			delete(g.tasks, x.ID)
			delete(g.before, x.ID)
		}
		g.Load(&Task{ID: fmt.Sprint("bd-", n), Title: "x"})
	}
	g = imported(t, fixture(t))
	x, err := g.Add(Task{Title: "x"}, "3kq", nil, "ann", noon)
	must(t, err)
	y, err := g.Add(Task{Title: "x"}, "", nil, "ann", noon)
	must(t, err)
	if x.ID != "acme-3kq.3" || !strings.HasPrefix(y.ID, "acme-") {
		t.Errorf("they are called %s and %s", x.ID, y.ID)
	}
	at := "acme-3kq.3"
	for _, want := range []string{"acme-3kq.3.1", "acme-3kq.3.1.1"} {
		n, err := g.Add(Task{Title: "x"}, at, nil, "ann", noon)
		must(t, err)
		if at = n.ID; at != want {
			t.Errorf("it is called %s, not %s", at, want)
		}
	}
	n, err := g.Add(Task{Title: "x"}, at, nil, "ann", noon)
	if err != nil || strings.Contains(n.ID, ".") {
		t.Errorf("far below it is called %s: %v", n.ID, err)
	}
	if _, err := g.Find("gate"); err != nil {
		t.Error(err)
	}
	if _, err := g.Find("nobody"); !errors.Is(err, spec.ErrNotFound) {
		t.Error(err)
	}
}

func TestCompareIDs(t *testing.T) {
	want := []string{"bd-a", "bd-a.1", "bd-a.2", "bd-a.2.1", "bd-a.10", "bd-a.1x", "bd-b"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, compareIDs)
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// FuzzRead checks that tasks survive writing and reading, also after a change.
func FuzzRead(f *testing.F) {
	for line := range strings.Lines(string(fixture(f))) {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"id":"a","title":"x","title":"y","labels":null,"metadata":"s","dependencies":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := read(data)
		if err != nil {
			return
		}
		g := NewGraph()
		if _, err := g.Import(list, false, noon); err != nil {
			return
		}
		first := written(t, g)
		second := imported(t, []byte(first))
		if again := written(t, second); again != first {
			t.Fatalf("%q becomes %q", first, again)
		}
		for _, x := range second.All() {
			if _, err := second.Update(x.ID, "ann", true, noon, func(t *Task) error { t.Notes = "changed"; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		third := imported(t, []byte(written(t, second)))
		if !slices.Equal(ready(third, noon), ready(second, noon)) {
			t.Fatalf("ready are %q, then %q", ready(second, noon), ready(third, noon))
		}
		for _, x := range third.All() {
			if x.Notes != "changed" {
				t.Fatalf("the change of %q is lost", x.ID)
			}
		}
	})
}
