package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

const prd = `{
  "project": "MyApp", "branchName": "ralph/feature",
  "userStories": [
    {"id": "US-002", "title": "Show it", "acceptanceCriteria": ["a badge", "typecheck passes"], "priority": 2, "passes": false, "notes": "see US-001"},
    {"id": "US-009", "title": "Last", "priority": 9, "passes": false},
    {"id": "US-007", "title": "Late", "priority": 7, "passes": false, "run": "rm -rf /"},
    {"id": "US-001", "title": "Store it", "description": "As a user", "priority": 1, "passes": true}
  ]
}`

func TestReadStories(t *testing.T) {
	if !IsStories([]byte(prd)) || IsStories([]byte(`{"id":"a","title":"b"}`)) || IsStories([]byte("{\"stories\":[]}\n{}")) {
		t.Error("stories are told from something else wrongly")
	}
	f, err := ReadStories([]byte(prd), noon)
	must(t, err)
	if !slices.Equal(ids(f.Tasks), []string{"US-001", "US-002", "US-007", "US-009"}) {
		t.Errorf("they are %q", ids(f.Tasks))
	}
	if want := []string{"project", "branchName", "stories: run"}; !slices.Equal(f.Passed, want) {
		t.Errorf("passed over: %q, want %q", f.Passed, want)
	}
	if x := f.Tasks[0]; x.Status != Closed || x.Failed() || x.Description != "As a user" || x.Type != "story" {
		t.Errorf("what passes is %+v", x)
	}
	if x := f.Tasks[1]; x.AcceptanceCriteria != "- a badge\n- typecheck passes\n" || x.Notes != "see US-001" || x.Priority != 2 {
		t.Errorf("what does not is %+v", x)
	}
	g := NewGraph()
	taken, err := g.Import(f.Tasks, false, noon)
	if must(t, err); len(taken.Added) != 4 {
		t.Errorf("taken: %+v", taken)
	}
	wantReady(t, g, "US-002", "US-007", "US-009")
	_, _, err = g.Close("US-007", "ann", End{}, noon.Add(time.Hour))
	must(t, err)
	f, err = ReadStories([]byte(prd), noon)
	must(t, err)
	if taken, err = g.Import(f.Tasks, false, noon.Add(time.Hour)); err != nil || len(taken.Same) != 4 {
		t.Errorf("the second time: %+v, %v", taken, err)
	}
	for _, bad := range []string{
		`{"userStories": {}}`, `{"userStories": [1]}`, `{"userStories": [{"id": "a"}]}`, `{"userStories": [{"title": "a"}]}`, `{"userStories": [{"id": "a b", "title": "x"}]}`,
		`{"userStories": [{"id": "a", "title": "x"}, {"id": "a", "title": "y"}]}`, `{"userStories": [{"id": "a", "title": "x", "passes": "yes"}]}`, `[]`,
	} {
		if f, err := ReadStories([]byte(bad), noon); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%s is %+v, %v", bad, f, err)
		}
	}
}

// TestStoriesWait checks that a story waits for its dependencies, under all names of the field.
// Circles and missing stories are refused.
func TestStoriesWait(t *testing.T) {
	for _, key := range []string{"needs", "dependsOn", "depends_on", "dependencies"} {
		text := func(of, second string) []byte {
			return []byte(`{"userStories": [{"id": "a", "title": "x", "priority": 2` + of + `}, {"id": "b", "title": "y", "priority": 1, "` + key + `": ` + second + `}]}`)
		}
		f, err := ReadStories(text("", `["a", "a"]`), noon)
		must(t, err)
		g := NewGraph()
		_, err = g.Import(f.Tasks, false, noon)
		must(t, err)
		wantReady(t, g, "a")
		_, _, err = g.Close("a", "ann", End{}, noon)
		must(t, err)
		wantReady(t, g, "b")
		f, err = ReadStories(text(`, "needs": ["b"]`, `["a"]`), noon)
		must(t, err)
		if _, err = NewGraph().Import(f.Tasks, false, noon); !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%s: in a circle: %v", key, err)
		}
		for _, bad := range []string{`["c"]`, `"a"`, `[1]`, `[""]`} {
			if _, err := ReadStories(text("", bad), noon); !errors.Is(err, spec.ErrUsage) {
				t.Errorf("%s: %s: %v", key, bad, err)
			}
		}
	}
}

func TestReadBoxes(t *testing.T) {
	const list = "# Ralph Tasks\n\n- [ ] one\n  - [x] a part\n\t- [/] another\n* [X] two\n- [ ] one\n- [?] nothing\n- [ ]\nrun me\n"
	f, err := ReadBoxes([]byte(list), noon)
	must(t, err)
	var got []string
	for _, x := range f.Tasks {
		got = append(got, strings.Repeat(" ", len(x.Parents()))+x.Title+" "+string(x.Status))
	}
	if want := []string{"one open", " a part closed", " another open", "two closed", "one open"}; !slices.Equal(got, want) {
		t.Errorf("they are %q, want %q", got, want)
	}
	if f.Tasks[0].ID == f.Tasks[4].ID || f.Tasks[2].Parents()[0] != f.Tasks[1].ID || len(f.Passed) != 1 {
		t.Errorf("they are %+v, passed over %q", f.Tasks, f.Passed)
	}
	again, err := ReadBoxes([]byte(list), noon.Add(time.Hour))
	must(t, err)
	if !slices.Equal(ids(again.Tasks), ids(f.Tasks)) {
		t.Errorf("the second time they are called %q, not %q", ids(again.Tasks), ids(f.Tasks))
	}
	g := NewGraph()
	_, err = g.Import(f.Tasks, false, noon)
	must(t, err)
}

// TestMarkOfUTF8 checks that a file may begin with one byte order mark.
func TestMarkOfUTF8(t *testing.T) {
	const mark = "\ufeff"
	for name, read := range map[string]func(string) (*Foreign, error){
		"issues": func(m string) (*Foreign, error) { return ReadIssues([]byte(m + `{"id":"a-1","title":"x"}` + "\n")) },
		"stories": func(m string) (*Foreign, error) {
			return ReadStories([]byte(m+`{"stories":[{"id":"a-1","title":"x"}]}`), noon)
		},
		"boxes": func(m string) (*Foreign, error) { return ReadBoxes([]byte(m+"- [ ] x\n"), noon) },
	} {
		if f, err := read(mark); err != nil || len(f.Tasks) != 1 {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		if f, err := read(mark + mark); err == nil && len(f.Tasks) > 0 {
			t.Errorf("%s, marked twice: %+v", name, f)
		}
	}
	if !IsStories([]byte(mark + `{"stories":[]}`)) {
		t.Error("stories are not told by what is behind the mark")
	}
}

// TestReadManyBoxes checks that a list that is made to be slow takes time in proportion to its length.
func TestReadManyBoxes(t *testing.T) {
	var odd strings.Builder
	odd.WriteString(`{"stories":[]`)
	for i := range 100 {
		fmt.Fprintf(&odd, `,"k%d":1`, i)
	}
	f, err := ReadStories([]byte(odd.String()+"}"), noon)
	if must(t, err); len(f.Passed) != maxPassed {
		t.Errorf("%d things are named", len(f.Passed))
	}
	const n = 20000
	f, err = ReadBoxes([]byte(strings.Repeat("- [ ] x\n", n)), noon)
	must(t, err)
	seen := map[string]bool{}
	for _, x := range f.Tasks {
		seen[x.ID] = true
	}
	if len(seen) != n {
		t.Errorf("%d boxes have %d IDs", n, len(seen))
	}
}

// FuzzForeign checks that the tasks of any input are valid.
func FuzzForeign(f *testing.F) {
	f.Add([]byte(prd))
	f.Add([]byte("- [ ] one\n  - [x] two"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func([]byte, time.Time) (*Foreign, error){ReadStories, ReadBoxes} {
			got, err := read(data, noon)
			if err != nil {
				continue
			}
			for _, x := range got.Tasks {
				doc, err := x.Encode()
				must(t, err)
				if _, err := Parse(doc); err != nil {
					t.Errorf("%s: %v", doc, err)
				}
			}
		}
	})
}
