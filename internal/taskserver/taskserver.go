// Package taskserver lets programs inside a sandbox work with the tasks of their
// project: by commands as Beads has them, which a small program inside sends as they
// were typed, or as an MCP server.
//
// Whoever asks may be hostile. It sees the tasks of one project, holds them by one name
// that it does not choose, and can do what the sandbox was given: read, add, or write.
// How much it asks at once, and how many tasks it adds, is bounded.
package taskserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// Server serves one sandbox.
type Server struct {
	Store  task.Store
	Who    string // by what name it holds tasks
	Access string // spec.TasksRead, TasksAdd or TasksWrite
	Now    func() time.Time

	mu    sync.Mutex // held while a command is carried out
	added int
}

// Bounds of what is asked, in bytes, and of the tasks that are added as long as the
// server lives.
const (
	maxAsked  = 256 << 10
	maxAdded  = 1000
	waitStore = 10 * time.Second
)

// command is a command of the program inside, and result what became of it.
type command struct {
	Args []string `json:"args"`
}

type result struct {
	Out  string `json:"out"`
	Err  string `json:"err"`
	Code int    `json:"code"`
}

// ServeHTTP answers POST /command and POST /mcp.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/command" && r.URL.Path != "/mcp" {
		http.Error(w, "POST /command or /mcp", http.StatusNotFound)
		return
	}
	if r.Header.Get("Origin") != "" { // a page in a browser inside is nobody whom the user has let in
		http.Error(w, "not for pages", http.StatusForbidden)
		return
	}
	body := http.MaxBytesReader(w, r.Body, maxAsked)
	if r.URL.Path == "/mcp" {
		s.serveMCP(w, r, body)
		return
	}
	var c command
	if err := json.NewDecoder(body).Decode(&c); err != nil {
		http.Error(w, "read the command: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer(w, s.run(r.Context(), c.Args))
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // who asked may have gone
}

// run carries a command out.
func (s *Server) run(ctx context.Context, args []string) result {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, waitStore)
	defer cancel()
	out, err := s.do(ctx, args)
	if err == nil {
		return result{Out: out}
	}
	text := "bd: " + err.Error() + "\n"
	if hint := spec.Hint(err); hint != "" && !strings.Contains(hint, "bothy ") { // there is no bothy inside
		text += "bd: hint: " + hint + "\n"
	}
	return result{Out: out, Err: text, Code: spec.ExitCode(err)}
}

func (s *Server) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now().UTC()
}

// may refuses what the sandbox was not given.
func (s *Server) may(access string) error {
	rank := map[string]int{spec.TasksRead: 1, spec.TasksAdd: 2, spec.TasksWrite: 3}
	if rank[s.Access] >= rank[access] {
		return nil
	}
	return spec.Errorf(spec.ErrDenied, "this sandbox may %s tasks, and this takes %s", s.Access, access)
}

// mayAdd refuses more tasks than anybody finds.
func (s *Server) mayAdd() error {
	if s.added >= maxAdded {
		return spec.Errorf(spec.ErrDenied, "%d tasks were added since the sandbox was started: that is enough", s.added)
	}
	return s.may(spec.TasksAdd)
}
