package taskserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/bothy-dev/bothy/internal/task"
)

// The Model Context Protocol. A server without sessions needs only its name, the list of its tools, and
// the call of a tool. Source: modelcontextprotocol.io/specification/2025-06-18 (Streamable HTTP).
const protocolVersion = "2025-06-18"

// protocolVersions are the versions whose messages are the same, as far as they are used here.
var protocolVersions = []string{protocolVersion, "2025-03-26", "2024-11-05"}

// message is a request or a notification, which has no ID.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

type reply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *failure        `json:"error,omitempty"`
}

type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Codes of JSON-RPC.
const (
	notParsed = -32700
	noMethod  = -32601
	badParams = -32602
)

type obj = map[string]any

func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request, body io.Reader) {
	var m message
	if err := json.NewDecoder(body).Decode(&m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, reply{Version: "2.0", ID: json.RawMessage("null"), Error: &failure{notParsed, err.Error()}})
		return
	}
	if m.ID == nil { // notifications are ignored
		w.WriteHeader(http.StatusAccepted)
		return
	}
	out := reply{Version: "2.0", ID: m.ID}
	out.Result, out.Error = s.called(r, m)
	answer(w, out)
}

func (s *Server) called(r *http.Request, m message) (any, *failure) {
	switch m.Method {
	case "initialize":
		var p struct {
			Version string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(m.Params, &p) // a client that names no version gets the newest
		if !slices.Contains(protocolVersions, p.Version) {
			p.Version = protocolVersion
		}
		return obj{
			"protocolVersion": p.Version, "capabilities": obj{"tools": obj{}},
			"serverInfo": obj{"name": "bothy-tasks", "version": "1"}, "instructions": "The tasks of this project.",
		}, nil
	case "ping":
		return obj{}, nil
	case "tools/list":
		return obj{"tools": s.listed()}, nil
	case "tools/call":
		var p struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			return nil, &failure{badParams, err.Error()}
		}
		for _, t := range allTools() {
			if t.name == p.Name && s.checkAccess(t.access) == nil {
				return s.callTool(r, t, p.Arguments)
			}
		}
		return nil, &failure{badParams, "unknown tool: " + p.Name}
	}
	return nil, &failure{noMethod, "unknown method " + m.Method}
}

// tool is an operation that a model may call.
type tool struct {
	name, access, does string
	args               []argument
	do                 func(context.Context, *Server, values) (string, error)
}

// argument of a tool.
type argument struct {
	name, does string
	needed     bool
	number     bool // a priority; others are strings
}

// values are the arguments of a call. A model's values are data: none is read as a flag, or as
// more than one value.
type values struct {
	text     map[string]string
	priority *int // nil: not given
}

// givenText returns all given text.
func (v values) givenText() []string { return slices.Collect(maps.Values(v.text)) }

func allTools() []tool {
	id := argument{name: "id", does: "its ID", needed: true}
	urgency := argument{name: "priority", does: "0, the most urgent, to 4", number: true}
	return []tool{
		{"tasks_ready", "read", "List the tasks that can begin now, the most urgent first.", nil, func(ctx context.Context, s *Server, _ values) (string, error) {
			return s.readyCommand(ctx, []string{"--json"})
		}},
		{"tasks_list", "read", "List all tasks that are not closed.", nil, func(ctx context.Context, s *Server, _ values) (string, error) {
			return s.listCommand(ctx, []string{"--json"})
		}},
		{"tasks_show", "read", "Show one task.", []argument{id}, func(ctx context.Context, s *Server, v values) (string, error) {
			return s.showTask(ctx, v.text["id"], &flags{})
		}},
		{"tasks_create", "add", "Add a task.", []argument{
			{name: "title", does: "the task in a line", needed: true},
			{name: "description", does: "all that is to be known"},
			urgency,
			{name: "discovered_from", does: "the ID of the task during which it was found"},
		}, createByTool},
		{"tasks_claim", "write", "Take a task, for half an hour, or for longer if it is yours.", []argument{id}, func(ctx context.Context, s *Server, v values) (string, error) {
			return s.updateTask(ctx, v.text["id"], change{claim: true, write: func(*task.Task) {}}, v.givenText(), asJSON)
		}},
		{"tasks_update", "write", "Change the fields of a task, or its status.", []argument{
			id,
			{name: "description", does: "all that is to be known, in the place of what there was"},
			{name: "append_notes", does: "a line to put below the notes"},
			urgency,
			{name: "status", does: "open, blocked or deferred"},
		}, updateByTool},
		{"tasks_depend", "write", "Have a task wait for another.", []argument{
			id,
			{name: "on", does: "the ID of the other", needed: true},
			{name: "type", does: "blocks, unless you say otherwise"},
		}, func(ctx context.Context, s *Server, v values) (string, error) {
			kind := cmp.Or(task.Kind(v.text["type"]), task.Blocks)
			return s.linkTask(ctx, v.text["id"], task.Link{Kind: kind, On: v.text["on"]}, v.givenText(), asJSON)
		}},
		{"tasks_close", "write", "End a task that no other worker holds.", []argument{id, {name: "reason", does: "why"}}, func(ctx context.Context, s *Server, v values) (string, error) {
			return s.closeTasks(ctx, []string{v.text["id"]}, task.End{Reason: v.text["reason"]}, v.givenText(), asJSON)
		}},
	}
}

// asJSON prints tasks for a model.
var asJSON = &flags{json: true}

func createByTool(ctx context.Context, s *Server, v values) (string, error) {
	t := task.Task{Title: v.text["title"], Description: v.text["description"], Priority: 2}
	if v.priority != nil {
		t.Priority = *v.priority
	}
	var links []task.Link
	if from, given := v.text["discovered_from"]; given {
		links = []task.Link{{Kind: task.DiscoveredFrom, On: from}}
	}
	return s.addTask(ctx, t, "", links, v.givenText(), asJSON)
}

func updateByTool(ctx context.Context, s *Server, v values) (string, error) {
	return s.updateTask(ctx, v.text["id"], change{status: v.text["status"], write: func(t *task.Task) {
		if text, given := v.text["description"]; given {
			t.Description = text
		}
		if note, given := v.text["append_notes"]; given {
			t.AddNote(note)
		}
		if v.priority != nil {
			t.Priority = *v.priority
		}
	}}, v.givenText(), asJSON)
}

// listed returns the tools that the sandbox may use.
func (s *Server) listed() []obj {
	list := []obj{}
	for _, t := range allTools() {
		if s.checkAccess(t.access) != nil {
			continue
		}
		properties, needed := obj{}, []string{}
		for _, a := range t.args {
			properties[a.name] = obj{"type": "string", "description": a.does}
			if a.number {
				properties[a.name] = obj{"type": "integer", "minimum": 0, "maximum": 4, "description": a.does}
			}
			if a.needed {
				needed = append(needed, a.name)
			}
		}
		list = append(list, obj{
			"name": t.name, "description": t.does,
			"inputSchema": obj{"type": "object", "properties": properties, "required": needed, "additionalProperties": false},
		})
	}
	return list
}

// callTool runs a tool's operation.
func (s *Server) callTool(r *http.Request, t tool, given map[string]any) (any, *failure) {
	v, err := t.readValues(given)
	if err != nil {
		return nil, &failure{badParams, err.Error()}
	}
	out := s.result(r.Context(), func(ctx context.Context) (string, error) { return t.do(ctx, s, v) })
	return obj{"content": []obj{{"type": "text", "text": out.Out + out.Err}}, "isError": out.Code != 0}, nil
}

// readValues returns the values of a tool's arguments.
func (t *tool) readValues(given map[string]any) (values, error) {
	v := values{text: map[string]string{}}
	for _, a := range t.args {
		x, ok := given[a.name]
		switch text, isText := x.(string); {
		case !ok && a.needed:
			return v, fmt.Errorf("%s needs %s", t.name, a.name)
		case !ok:
		case a.number:
			v.priority = new(int)
			if n, isNumber := x.(float64); isNumber {
				text = strconv.FormatFloat(n, 'f', -1, 64)
			}
			if err := priority(v.priority, text); err != nil {
				return v, err
			}
		case !isText:
			return v, fmt.Errorf("%s is not a text", a.name)
		default:
			v.text[a.name] = text
		}
	}
	return v, nil
}
