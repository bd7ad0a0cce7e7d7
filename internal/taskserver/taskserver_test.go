package taskserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/task/tasktest"
	"github.com/bothy-dev/bothy/spec"
)

func newServer(t *testing.T, access string) *Server {
	t.Helper()
	return &Server{Store: &tasktest.Store{}, Who: "box", Access: access}
}

// must runs a command that must have this exit code, and returns its output.
func (s *Server) must(t *testing.T, code int, args ...string) string {
	t.Helper()
	r := s.runCommand(t.Context(), args)
	if r.Code != code {
		t.Fatalf("%q: %+v", args, r)
	}
	return r.Out + r.Err
}

func (s *Server) post(t *testing.T, path, body string, header ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://tasks.bothy"+path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestCommands(t *testing.T) {
	s := newServer(t, spec.TasksWrite)
	out := s.must(t, 0, "create", "--priority", "P1", "--", "--json")
	id, _, _ := strings.Cut(out, " ")
	if !strings.HasSuffix(out, "  P1  open  --json\n") {
		t.Errorf("%q", out)
	}
	s.must(t, 0, "create", "second", "-d", "text\nmore", "--labels", "a,b", "--deps", "blocks:"+id)
	if out := s.must(t, 0, "ready"); strings.Count(out, "\n") != 1 {
		t.Errorf("%q", out)
	}
	s.must(t, 0, "update", id, "--status", "in_progress", "--notes", "mine")
	s.must(t, 0, "update", id, "--release")
	s.must(t, 0, "update", "--claim", id)
	if out := s.must(t, 0, "show", id); !strings.Contains(out, "assignee box\n") || !strings.Contains(out, "Notes:\nmine\n") {
		t.Errorf("%s", out)
	}
	for _, status := range []string{"closed", "hooked", "pinned", "tombstone", "mine"} {
		if out := s.must(t, spec.ExitUsage, "update", id, "--status", status); !strings.HasPrefix(out, "bd: ") {
			t.Errorf("%s", out)
		}
	}
	s.must(t, spec.ExitUsage, "dep", "tree", id)
	s.must(t, 0, "close", id, "-r", "done")
	var docs []map[string]any
	if err := json.Unmarshal([]byte(s.must(t, 0, "ready", "--json", "-n", "5")), &docs); err != nil || len(docs) != 1 || docs[0]["title"] != "second" {
		t.Errorf("%v, %v", docs, err)
	}
	for _, args := range [][]string{{"list", "x"}, {"show"}, {"create"}, {"create", "a", "b"}, {"create", "a", "-p", "9"}, {"ready", "-n", "x"}, {"create", "a", "--deps", "blocks:"}, {"no-such"}} {
		s.must(t, spec.ExitUsage, args...)
	}
}

// TestBeads checks the commands that Beads tells agents to type, and the output that scripts read.
func TestBeads(t *testing.T) {
	s := newServer(t, spec.TasksWrite)
	read := func(into any, args ...string) {
		t.Helper()
		if out := s.must(t, 0, args...); json.Unmarshal([]byte(out), into) != nil {
			t.Errorf("%q: %s", args, out)
		}
	}
	var made task.Task
	read(&made, "create", "Issue title", "--description=Detailed context", "-t", "bug", "-p", "0", "--json")
	id := made.ID
	if id == "" || made.Type != "bug" || made.Priority != 0 {
		t.Errorf("%+v", made)
	}
	read(&made, "create", "--title", "Found while working", "-p", "1", "--deps", "discovered-from:"+id, "-l", "a,b", "--json")
	second := made.ID
	var list []task.Task
	one := func(want string, args ...string) {
		t.Helper()
		list = nil
		read(&list, args...)
		if len(list) != 1 || list[0].ID != want {
			t.Errorf("%q: %+v", args, list)
		}
	}
	one(id, "update", id, "--claim", "--json")
	one(id, "update", id, "--priority", "1", "-d", "less", "--append-notes", "one", "--add-label", "x,y", "--json")
	one(id, "update", id, "--append-notes", "two", "--remove-label", "y", "--acceptance", "it works", "--json")
	if got := list[0]; got.Priority != 1 || got.Description != "less" || got.Notes != "one\ntwo" || !slices.Equal(got.Labels, []string{"x"}) || got.AcceptanceCriteria != "it works" || got.Assignee != "box" {
		t.Errorf("%+v", got)
	}
	one(second, "--json", "ready", "--label", "a")
	one(second, "dep", "add", second, id, "--json")
	one(second, "blocked", "--json")
	one(second, "list", "--status", "open", "-p", "1", "--json")
	s.must(t, spec.ExitNotFound, "ready", "--claim")
	s.must(t, spec.ExitUsage, "ready", "--claim", "--label", task.LabelHuman)
	one(second, "dep", "remove", second, id, "--json")
	one(second, "ready", "--claim", "--json")
	one(second, "close", second, "--reason", "Completed", "--session", "abc", "--json")
	if list[0].ClosedBySession != "abc" {
		t.Errorf("%+v", list[0])
	}
	one(second, "reopen", second, "--json")
	one(second, "ready", "-t", "task", "-p", "P1", "--unassigned", "-n", "1", "--json")
	for _, args := range [][]string{{"create", "a", "--title", "b"}, {"ready", "-p", "9"}, {"update", id, "--priority", "x"}, {"update", id, "--title", ""}, {"update", id, "--remove-label", "x,human"}, {"dep", "remove", id}, {"reopen"}, {"--json"}} {
		s.must(t, spec.ExitUsage, args...)
	}
}

// TestAccess checks that a caller can never exceed its rights.
func TestAccess(t *testing.T) {
	s := newServer(t, spec.TasksWrite)
	id, _, _ := strings.Cut(s.must(t, 0, "create", "one"), " ")
	for access, most := range map[string]int{spec.TasksRead: 0, spec.TasksAdd: 1, spec.TasksWrite: 8, "": -1, "all": -1} {
		s.Access = access
		for n, args := range [][]string{{"create", "two"}, {"update", id, "--notes", "x"}, {"dep", "add", id, id, "--type", "related"}, {"update", id, "--claim"}, {"close", id, "--reason", ""}, {"reopen", id}, {"ready", "--claim"}, {"dep", "remove", id, id}} {
			if r := s.runCommand(t.Context(), args); (r.Code == spec.ExitDenied) != (n >= most) {
				t.Errorf("%q: %q: %+v", access, args, r)
			}
		}
		_, text := s.post(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tasks_close","arguments":{"id":"`+id+`"}}}`)
		if strings.Contains(text, `"isError":false`) != (access == spec.TasksWrite) {
			t.Errorf("%q: %s", access, text)
		}
	}
}

// TestBounds checks that requests take a bounded part of the host's resources, however many there are.
func TestBounds(t *testing.T) {
	s := newServer(t, spec.TasksAdd)
	if code, _ := s.post(t, "/command", `{"args":["create","`+strings.Repeat("x", maxAsked)+`"]}`); code != http.StatusBadRequest {
		t.Errorf("a large body: %d", code)
	}
	if code, _ := s.post(t, "/command", `{"args":["list"]}`, "Origin", "http://evil.example"); code != http.StatusForbidden {
		t.Errorf("from a page: %d", code)
	}
	for path, body := range map[string]string{"/": "{}", "/command": "[", "/mcp": "{", "/command/": "{}"} {
		if code, text := s.post(t, path, body); code < 400 {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	many := strings.Repeat("x,", maxWords) + "x"
	for _, args := range [][]string{{"create", "x", "--deps", many}, {"create", "x", "-l", "a", "-l", many}, {"update", "x", "--add-label", many}, {"update", "x", "--remove-label", many}, {"ready", "-t", many}} {
		s.must(t, spec.ExitUsage, args...)
	}
	s.added = maxAdded - 5
	var wg sync.WaitGroup
	for n := range 10 {
		wg.Go(func() { s.post(t, "/command", fmt.Sprintf(`{"args":["create","task %d"]}`, n)) })
	}
	wg.Wait()
	if n := strings.Count(s.must(t, 0, "list"), "\n"); n != 5 {
		t.Errorf("%d tasks were added", n)
	}
	s.must(t, spec.ExitDenied, "create", "one more")
	s.added, s.written = 0, maxWritten-10<<10
	for range 9 {
		s.must(t, spec.ExitNotFound, "create", "x", "--parent", "none") // tries count
	}
	s.must(t, spec.ExitDenied, "create", strings.Repeat("x", 8<<10))
	s.written = 0
	var others []string
	for line := range strings.Lines(s.must(t, 0, "list")) {
		others = append(others, strings.Fields(line)[0])
	}
	s.must(t, 0, "create", "x", "--deps", strings.Join(others, ","))
	if s.written < perChange+len(others)*perLink {
		t.Errorf("%d dependencies count as %d bytes", len(others), s.written)
	}
	if err := s.Store.Change(t.Context(), func(g *task.Graph) (err error) { // in one change, because each change reads all tasks
		for n := range 90 {
			if _, err = g.Add(task.Task{Title: fmt.Sprint("large ", n), Description: strings.Repeat("x", 60<<10)}, "", nil, "ann", s.timeNow()); err != nil {
				break
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if out := s.must(t, spec.ExitError, "list", "--json"); !strings.Contains(out, "ask for less") {
		t.Errorf("%.200s", out)
	}
}

func TestMCP(t *testing.T) {
	s := newServer(t, spec.TasksAdd)
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"1999-01-01"}}`:                                                  `{"jsonrpc":"2.0","id":"a","result":{"capabilities":{"tools":{}},"instructions":"The tasks of this project.","protocolVersion":"2025-06-18",`,
		`{"jsonrpc":"2.0","id":7,"method":"ping"}`:                                                                                                    `{"jsonrpc":"2.0","id":7,"result":{}}`,
		`{"jsonrpc":"2.0","id":7,"method":"resources/list"}`:                                                                                          `"code":-32601`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tasks_show","arguments":{}}}`:                                                `needs id`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tasks_show","arguments":{"id":["x"]}}}`:                                      `is not a text`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tasks_show","arguments":{"id":"--json"}}}`:                                   `no task \"--json\"`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tasks_create","arguments":{"title":"t","priority":3,"description":"-p 0"}}}`: `\"priority\":3`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`:                                                                                              `"name":"tasks_create"`,
	} {
		if code, text := s.post(t, "/mcp", body); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	if code, text := s.post(t, "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`); code != http.StatusAccepted || text != "" {
		t.Errorf("%d %q", code, text)
	}
	if _, text := s.post(t, "/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`); strings.Contains(text, "tasks_close") {
		t.Errorf("%s", text)
	}
}

// TestMCPValuesAreData checks that a model's value for an argument is that argument, and nothing
// else.
func TestMCPValuesAreData(t *testing.T) {
	s := newServer(t, spec.TasksWrite)
	tool := func(name, arguments string) string {
		_, text := s.post(t, "/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`)
		return text
	}
	made := func(title string) string {
		var task struct{ ID string }
		if err := json.Unmarshal([]byte(s.must(t, 0, "create", title, "--json")), &task); err != nil {
			t.Fatal(err)
		}
		return task.ID
	}
	a, b := made("A"), made("B")
	for _, from := range []string{a + ",blocks:" + b, "blocks:" + b, a + ",", " " + a, "", "--json"} {
		if text := tool("tasks_create", `{"title":"found","discovered_from":"`+from+`"}`); !strings.Contains(text, `"isError":true`) {
			t.Errorf("discovered_from %q: %s", from, text)
		}
	}
	if text := tool("tasks_create", `{"title":"found","discovered_from":"`+a+`"}`); strings.Contains(text, `"isError":true`) || !strings.Contains(text, "discovered-from") {
		t.Error(text)
	}
	for _, priority := range []string{`"0 --status=closed"`, `"0x"`, `"P0,1"`, `"--"`, `""`, `0.5`, `5`, `-1`, `1e300`, `null`, `[0]`, `"00"`} {
		if text := tool("tasks_update", `{"id":"`+a+`","priority":`+priority+`}`); !strings.Contains(text, "is not a priority") {
			t.Errorf("priority %s: %s", priority, text)
		}
	}
	for _, priority := range []string{`0`, `"0"`, `"P0"`} {
		if text := tool("tasks_update", `{"id":"`+a+`","priority":`+priority+`}`); !strings.Contains(text, `\"priority\":0`) {
			t.Errorf("priority %s: %s", priority, text)
		}
	}
	for _, status := range []string{"open --release", "closed", "open,blocked", "--claim"} {
		if text := tool("tasks_update", `{"id":"`+a+`","status":"`+status+`"}`); !strings.Contains(text, `"isError":true`) {
			t.Errorf("status %q: %s", status, text)
		}
	}
	if text := tool("tasks_close", `{"id":"`+a+`,`+b+`"}`); !strings.Contains(text, `"isError":true`) {
		t.Errorf("two tasks as one: %s", text)
	}
	if text := tool("tasks_create", `{"title":"--priority=0","description":"--deps=blocks:`+b+`"}`); !strings.Contains(text, `\"priority\":2`) || strings.Contains(text, `\"depends_on_id\"`) {
		t.Error(text)
	}
}
