// Package taskserver lets programs inside a sandbox work with the tasks of their project: by Beads'
// commands, which a small program inside sends unchanged, or as an MCP server.
//
// The caller may be hostile. It sees the tasks of one project, holds them by one name that it does not
// choose, and has the sandbox's rights: read, add, or write. The size of its requests, the number of
// tasks that it adds, and the time during which it blocks other callers are bounded.
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
	Who    string // the name that holds the tasks
	Access string // spec.TasksRead, TasksAdd or TasksWrite
	Now    func() time.Time

	mu      sync.Mutex // held while a command is read, executed and answered
	added   int
	written int // bytes of requested changes, plus perChange for each change, and perLink for each dependency
	changes pace
	looks   pace
}

// Bounds of requests and answers, in bytes, and of all changes during the server's life: the book is the
// host's, and every change makes work for all its users.
const (
	maxAsked    = 64 << 10
	maxAnswered = 4 << 20
	maxAdded    = 1000
	maxWritten  = 8 << 20
	perChange   = 1 << 10
	perLink     = 1 << 7 // a stored dependency is much larger than its ID
	waitStore   = 10 * time.Second
	answerTime  = 20 * time.Second
)

// command is a command from the program inside, and result its result.
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
	if r.Header.Get("Origin") != "" { // the user has not allowed this for web pages in a browser inside
		http.Error(w, "not for pages", http.StatusForbidden)
		return
	}
	s.mu.Lock() // a waiting request has read no body yet
	defer s.mu.Unlock()
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(answerTime)) // if possible: only its own sandbox waits
	_ = c.SetWriteDeadline(time.Now().Add(answerTime))
	body := http.MaxBytesReader(w, r.Body, maxAsked)
	if r.URL.Path == "/mcp" {
		s.serveMCP(w, r, body)
		return
	}
	var asked command
	if err := json.NewDecoder(body).Decode(&asked); err != nil {
		http.Error(w, "read the command: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer(w, s.runCommand(r.Context(), asked.Args))
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client may be gone
}

// runCommand executes a command. The caller holds the lock.
func (s *Server) runCommand(ctx context.Context, args []string) result {
	return s.result(ctx, func(ctx context.Context) (string, error) { return s.doCommand(ctx, args) })
}

// result runs an operation, and bounds its time and its answer.
func (s *Server) result(ctx context.Context, operation func(context.Context) (string, error)) result {
	ctx, cancel := context.WithTimeout(ctx, maxPause+waitStore)
	defer cancel()
	out, err := operation(ctx)
	if len(out) > maxAnswered {
		out, err = "", spec.Errorf(nil, "the answer has %d bytes: ask for less", len(out))
	}
	if err == nil {
		return result{Out: out}
	}
	text := "bd: " + err.Error() + "\n"
	if hint := spec.Hint(err); hint != "" && !strings.Contains(hint, "bothy ") { // the bothy command does not exist inside
		text += "bd: hint: " + hint + "\n"
	}
	return result{Out: out, Err: text, Code: spec.ExitCode(err)}
}

func (s *Server) timeNow() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now().UTC()
}

// checkAccess refuses operations that the sandbox has no right to.
func (s *Server) checkAccess(access string) error {
	rank := map[string]int{spec.TasksRead: 1, spec.TasksAdd: 2, spec.TasksWrite: 3}
	if rank[s.Access] >= rank[access] {
		return nil
	}
	return spec.Errorf(spec.ErrDenied, "this sandbox may %s tasks, and this takes %s", s.Access, access)
}

// checkChange is checkAccess for a change with these arguments, and returns the size of the change. It
// refuses more than any agent needs.
func (s *Server) checkChange(access string, args []string) (size int, err error) {
	if err := s.checkAccess(access); err != nil {
		return 0, err
	}
	size = perChange
	for _, a := range args {
		size += len(a)
	}
	if s.added >= maxAdded || s.written+size > maxWritten {
		return 0, spec.Errorf(spec.ErrDenied, "%d tasks were added and much was changed since the sandbox was started: that is enough", s.added)
	}
	return size, nil
}
