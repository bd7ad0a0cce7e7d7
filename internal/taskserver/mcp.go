package taskserver

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
)

// The Model Context Protocol, of which a server without sessions needs little: it says
// who it is, which tools there are, and calls one. Source:
// modelcontextprotocol.io/specification/2025-06-18 (Streamable HTTP).
const protocolVersion = "2025-06-18"

// protocolVersions are those that differ in nothing that is said here.
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
	if m.ID == nil { // nothing that a client only tells matters here
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
		_ = json.Unmarshal(m.Params, &p) // a client that does not say gets the newest
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
		for _, t := range tools() {
			if t.name == p.Name && s.may(t.access) == nil {
				return s.call(r, t, p.Arguments)
			}
		}
		return nil, &failure{badParams, "there is no tool " + p.Name}
	}
	return nil, &failure{noMethod, "unknown method " + m.Method}
}

// tool is a command, with its arguments in the order of the command line.
type tool struct {
	name, access, does string
	command            []string
	args               []argument
}

// argument of a tool: a flag, or in its place if it has none.
type argument struct {
	name, flag, does string
	needed           bool
}

func tools() []tool {
	return []tool{
		{"tasks_ready", "read", "List the tasks that can begin now, the most urgent first.", []string{"ready", "--json"}, nil},
		{"tasks_list", "read", "List all tasks that are not closed.", []string{"list", "--json"}, nil},
		{"tasks_show", "read", "Show one task.", []string{"show"}, []argument{{"id", "", "its ID", true}}},
		{"tasks_create", "add", "Add a task.", []string{"create", "--json"}, []argument{
			{"title", "", "what is to be done, in a line", true},
			{"description", "--description", "all that is to be known", false},
			{"priority", "--priority", "0, the most urgent, to 4", false},
			{"discovered_from", "--deps", "the ID of the task during which it was found", false},
		}},
		{"tasks_claim", "write", "Take a task, for half an hour, or for longer if it is yours.", []string{"update", "--claim", "--json"}, []argument{{"id", "", "its ID", true}}},
		{"tasks_update", "write", "Change what is written down of a task, or how it stands.", []string{"update", "--json"}, []argument{
			{"id", "", "its ID", true},
			{"description", "--description", "all that is to be known, in the place of what there was", false},
			{"append_notes", "--append-notes", "a line to put below the notes", false},
			{"priority", "--priority", "0, the most urgent, to 4", false},
			{"status", "--status", "open, blocked or deferred", false},
		}},
		{"tasks_depend", "write", "Have a task wait for another.", []string{"dep", "add", "--json"}, []argument{
			{"id", "", "its ID", true},
			{"on", "", "the ID of the other", true},
			{"type", "--type", "blocks, unless you say otherwise", false},
		}},
		{"tasks_close", "write", "End a task that nobody else holds.", []string{"close", "--json"}, []argument{
			{"id", "", "its ID", true}, {"reason", "--reason", "why", false},
		}},
	}
}

// listed are those that the sandbox may use.
func (s *Server) listed() []obj {
	list := []obj{}
	for _, t := range tools() {
		if s.may(t.access) != nil {
			continue
		}
		properties, needed := obj{}, []string{}
		for _, a := range t.args {
			properties[a.name] = obj{"type": "string", "description": a.does}
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

// call carries a tool's command out. What a model gave is data: nothing of it is read
// as a flag.
func (s *Server) call(r *http.Request, t tool, given map[string]any) (any, *failure) {
	args := slices.Clone(t.command)
	var plain []string
	for _, a := range t.args {
		v, ok := given[a.name]
		if !ok {
			if a.needed {
				return nil, &failure{badParams, t.name + " needs " + a.name}
			}
			continue
		}
		text, ok := v.(string)
		if n, isNumber := v.(float64); isNumber {
			b, _ := json.Marshal(n)
			text, ok = string(b), true
		}
		switch {
		case !ok:
			return nil, &failure{badParams, a.name + " is no text"}
		case a.flag == "--deps":
			args = append(args, a.flag+"=discovered-from:"+text)
		case a.flag != "":
			args = append(args, a.flag+"="+text)
		default:
			plain = append(plain, text)
		}
	}
	out := s.run(r.Context(), append(append(args, "--"), plain...))
	return obj{"content": []obj{{"type": "text", "text": out.Out + out.Err}}, "isError": out.Code != 0}, nil
}
