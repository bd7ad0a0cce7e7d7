package task

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Foreign has the tasks of a file that may not be in Beads' format.
type Foreign struct {
	Tasks  []*Task
	Passed []string // ignored kinds of content, each once, only the first ones
}

// maxPassed is how many kinds of ignored content are named.
const maxPassed = 20

func (f *Foreign) noteIgnored(what string) {
	if len(f.Passed) < maxPassed && !slices.Contains(f.Passed, what) {
		f.Passed = append(f.Passed, what)
	}
}

// storyLists are keys of a list of stories, as known loops write it.
var storyLists = []string{"userStories", "stories"}

// IsStories reports whether a file is one document with a list of stories: the prd.json of
// snarktank's ralph, or a similar one.
func IsStories(data []byte) bool {
	o, err := parseObject(withoutMark(data))
	return err == nil && slices.ContainsFunc(storyLists, func(key string) bool { return o.values[key] != nil })
}

// ReadStories reads the stories of a prd.json as tasks, with the file's time. Stories that pass are
// closed. All of it is data: unknown fields are named, and ignored.
func ReadStories(data []byte, at time.Time) (*Foreign, error) {
	o, err := parseObject(withoutMark(data))
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "read the stories: %w", err)
	}
	f := &Foreign{}
	var list []json.RawMessage
	for _, key := range o.keys {
		if !slices.Contains(storyLists, key) {
			f.noteIgnored(key)
			continue
		}
		var some []json.RawMessage
		if err := json.Unmarshal(o.values[key], &some); err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "%s is not a list", key)
		}
		list = append(list, some...)
	}
	var stories []*story
	seen := map[string]int{}
	for i, doc := range list {
		s, err := readStory(doc, f)
		if err == nil && seen[s.ID] > 0 {
			err = fmt.Errorf("it has the ID %s, which story %d has", s.ID, seen[s.ID])
		}
		if err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "story %d: %w", i+1, err).WithHint("nothing was taken over")
		}
		seen[s.ID] = i + 1
		stories = append(stories, s)
	}
	slices.SortStableFunc(stories, func(a, b *story) int { return cmp.Compare(a.rankOf(), b.rankOf()) })
	for i, s := range stories { // of equal priority, the first story counts as the oldest
		for _, id := range s.allNeeds() {
			if seen[id] == 0 { // otherwise it would not wait at all
				return nil, spec.Errorf(spec.ErrUsage, "story %s needs %q, which is not there", s.ID, id).
					WithHint("nothing was taken over; add it, or take it out of what the story needs")
			}
		}
		t := s.newTask(at, at.Add(time.Duration(i-len(stories))*time.Millisecond))
		if err := t.fromEntry(); err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "story %s: %w", s.ID, err).WithHint("nothing was taken over")
		}
		f.Tasks = append(f.Tasks, t)
	}
	return f, nil
}

// story is a story of a prd.json. Criteria have three names there, and dependencies four.
type story struct {
	ID          string   `json:"id"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Criteria    []string `json:"acceptanceCriteria"`
	Criteria2   []string `json:"acceptance_criteria"`
	Criteria3   []string `json:"acceptance"`
	Priority    *int     `json:"priority"`
	Passes      bool     `json:"passes"`
	Notes       string   `json:"notes"`
	Needs       []string `json:"needs"`
	Needs2      []string `json:"dependsOn"`
	Needs3      []string `json:"depends_on"`
	Needs4      []string `json:"dependencies"`
}

var storyKeys = []string{
	"id", "title", "description", "acceptanceCriteria", "acceptance_criteria", "acceptance", "priority", "passes", "notes",
	"needs", "dependsOn", "depends_on", "dependencies",
}

// allNeeds returns the IDs of the stories that must be done before.
func (s *story) allNeeds() []string { return slices.Concat(s.Needs, s.Needs2, s.Needs3, s.Needs4) }

func readStory(doc json.RawMessage, f *Foreign) (*story, error) {
	o, err := parseObject(doc)
	if err != nil {
		return nil, err
	}
	for _, key := range o.keys {
		if !slices.Contains(storyKeys, key) {
			f.noteIgnored("stories: " + key)
		}
	}
	s := &story{}
	return s, json.Unmarshal(doc, s)
}

// rankOf is the place of a story among the others; one without a priority comes last.
func (s *story) rankOf() int {
	if s.Priority == nil {
		return 1 << 30
	}
	return *s.Priority
}

// newTask makes a task from a story. Its priority may be any number: those beyond ours become the least
// urgent, and keep their order by their age.
func (s *story) newTask(at, created time.Time) *Task {
	t := &Task{
		ID: s.ID, Title: strings.TrimSpace(s.Title), Description: s.Description, Notes: s.Notes, Status: Open, Type: "story",
		Priority: max(0, min(s.rankOf(), 4)), CreatedAt: created, UpdatedAt: at,
	}
	if s.Priority == nil {
		t.Priority = 2
	}
	var criteria strings.Builder
	for _, c := range slices.Concat(s.Criteria, s.Criteria2, s.Criteria3) {
		fmt.Fprintf(&criteria, "- %s\n", c)
	}
	t.AcceptanceCriteria = criteria.String()
	for _, id := range s.allNeeds() {
		if !slices.ContainsFunc(t.Dependencies, func(d Dependency) bool { return d.DependsOnID == id }) {
			t.Dependencies = append(t.Dependencies, Dependency{TaskID: s.ID, DependsOnID: id, Kind: Blocks, CreatedAt: at})
		}
	}
	if s.Passes {
		t.Status, t.ClosedAt, t.CloseReason = Closed, &at, "passes, by the file"
	}
	return t
}

// ReadBoxes reads a list of boxes in Markdown as tasks, with the file's time: "- [ ]" is open, "- [/]"
// is in progress, "- [x]" is done. An indented box is a part of the one above it. IDs are made from the
// words, so the same list gives the same tasks again.
func ReadBoxes(data []byte, at time.Time) (*Foreign, error) {
	f := &Foreign{}
	var above []box
	same := map[string]int{} // number of equal boxes within the same parent
	for line := range bytes.Lines(withoutMark(data)) {
		b, ok := parseBox(string(line))
		if !ok {
			if len(bytes.TrimSpace(line)) > 0 {
				f.noteIgnored("lines without a box")
			}
			continue
		}
		for len(above) > 0 && above[len(above)-1].indent >= b.indent {
			above = above[:len(above)-1]
		}
		parent := ""
		if len(above) > 0 {
			parent = above[len(above)-1].id
		}
		says := parent + "\x00" + b.title
		b.id = idOfBox(says, same[says])
		same[says]++
		above = append(above, b)
		t := b.newTask(parent, at, at.Add(time.Duration(len(f.Tasks))*time.Millisecond-time.Hour))
		if err := t.fromEntry(); err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "the box %.40q: %w", b.title, err).WithHint("nothing was taken over")
		}
		f.Tasks = append(f.Tasks, t)
	}
	return f, nil
}

// box is a line of the list.
type box struct {
	indent int
	mark   byte
	title  string
	id     string
}

func parseBox(line string) (box, bool) {
	line = strings.ReplaceAll(strings.TrimRight(line, " \t\r\n"), "\t", "    ")
	rest := strings.TrimLeft(line, " ")
	if len(rest) < len("- [x] y") || rest[0] != '-' && rest[0] != '*' || rest[1:3] != " [" || rest[4:6] != "] " || !strings.ContainsRune(" /xX", rune(rest[3])) {
		return box{}, false
	}
	title := strings.TrimSpace(rest[6:])
	return box{indent: len(line) - len(rest), mark: rest[3], title: title}, title != ""
}

// idOfBox names a box by its text, the box that it is a part of, and the number of equal ones before
// it.
func idOfBox(says string, n int) string {
	sum := sha256.Sum256([]byte(says + "\x00" + strconv.Itoa(n)))
	return "box-" + hex.EncodeToString(sum[:6])
}

func (b *box) newTask(parent string, at, created time.Time) *Task {
	title, more := b.title, ""
	if r := []rune(title); len(r) > MaxTitle {
		title, more = string(r[:MaxTitle]), b.title
	}
	t := &Task{ID: b.id, Title: title, Description: more, Status: Open, Type: "task", Priority: 2, CreatedAt: created, UpdatedAt: at}
	if parent != "" {
		t.Dependencies = []Dependency{{TaskID: b.id, DependsOnID: parent, Kind: ParentChild, CreatedAt: created}}
	}
	if b.mark == 'x' || b.mark == 'X' {
		t.Status, t.ClosedAt, t.CloseReason = Closed, &at, "done, by the file"
	}
	return t
}
