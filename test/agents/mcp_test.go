package agents

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// remembering has the model use the tools of MCP servers: one that the agent
// starts itself, one on the network, one on the host.
const remembering = `
turns:
  - tools: [{mcp: {server: own, tool: remember, arguments: {text: of my own}}}]
  - tools: [{mcp: {server: remote, tool: remember, arguments: {text: of the network}}}]
  - tools: [{mcp: {server: local, tool: remember, arguments: {text: of the host}}}]
  - text: All is remembered.
`

// mcpHost is a server on the network that the rules allow.
const mcpHost = "mcp.example"

// mcpWays are the agents' own ways to configure MCP servers: in files of the project, and in those of
// their user, which are passed on by choice.
var mcpWays = []struct {
	cli   cli
	files map[string]string // in the home, or in the project; ME is the test binary, URL the host's server
	flags []string          // of bothy run
}{
	{claude, map[string]string{
		"~/.claude.json": `{"mcpServers":{"own":{"command":"ME","args":["mcp"]}}}`,
		".mcp.json": `{"mcpServers":{
			"remote":{"type":"http","url":"https://` + mcpHost + `/mcp"},
			"local":{"type":"http","url":"URL"}}}`,
	}, []string{"-e", "ENABLE_TOOL_SEARCH=false"}}, // otherwise the model has to search first
	{codex, map[string]string{"~/.codex/config.toml": `
		[mcp_servers]
		own = {command="ME", args=["mcp"], required=true}
		remote = {url="https://` + mcpHost + `/mcp", required=true}
		local = {url="URL", required=true}`}, nil},
	{gemini, map[string]string{
		"~/.gemini/settings.json": `{"mcpServers":{"own":{"command":"ME","args":["mcp"]}}}`,
		".gemini/settings.json": `{"mcpServers":{
			"remote":{"httpUrl":"https://` + mcpHost + `/mcp"},
			"local":{"httpUrl":"URL"}}}`,
	}, nil},
	{opencode, map[string]string{
		"~/.config/opencode/opencode.json": `{"mcp":{"own":{"type":"local","command":["ME","mcp"],"enabled":true}}}`,
		"opencode.json": `{"mcp":{
			"remote":{"type":"remote","url":"https://` + mcpHost + `/mcp","enabled":true,"oauth":false},
			"local":{"type":"remote","url":"URL","enabled":true,"oauth":false}}}`,
	}, nil},
}

func TestMCP(t *testing.T) {
	harness.AsRoot(t)
	for _, way := range mcpWays {
		t.Run(way.cli.name, func(t *testing.T) {
			sweepOthers(t, way.cli)
			inWorld(t, way.cli, remembering, func(t *testing.T, w *world) {
				w.stage.Leads(mcpHost, stage.Host4.String())
				heard := make(chan string, 100)
				w.hosts = map[string]http.Handler{mcpHost: mcpServer(func(text string) { heard <- "network: " + text })}
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				host := &http.Server{Handler: mcpServer(func(text string) { heard <- "host: " + text })}
				go func() { _ = host.Serve(l) }()
				t.Cleanup(func() { _ = host.Close() })
				_, port, _ := net.SplitHostPort(l.Addr().String())
				fill := strings.NewReplacer("ME", w.Plant(t, w.Work), "URL", "http://host.bothy:"+port+"/mcp")
				for name, text := range way.files {
					path := filepath.Join(w.Work, name)
					if rest, ok := strings.CutPrefix(name, "~/"); ok {
						path = filepath.Join(w.Home, rest)
					}
					w.Mkdir(t, filepath.Dir(path))
					w.Write(t, path, fill.Replace(text))
				}
				w.Must(t, "policy", "allow", mcpHost+":443", "--method", "POST", "--method", "GET", "--method", "DELETE", "--path", "/mcp")
				r := w.within(t, w.start("remember", append(way.flags, "--agent-config", "--allow-host-port", port)...)...)
				if r.Code != 0 || !strings.Contains(r.Stdout, "All is remembered.") {
					t.Fatalf("%v\nthe model was asked\n%s\n%s", r, summary(w.model.Requests()), w.Must(t, "logs", "--source", "network", box))
				}
				if got := w.read(t, "remembered.txt"); got != "of my own, on 4.19.0-gvisor\n" {
					t.Errorf("its own server wrote %q", got)
				}
				close(heard)
				var got []string
				for text := range heard {
					got = append(got, text)
				}
				if want := []string{"network: of the network", "host: of the host"}; !slices.Equal(got, want) {
					t.Errorf("the servers heard %q", got)
				}
			})
		})
	}
}

// rpc is a request of an MCP client, or its answer.
type rpc struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  struct {
		Protocol  string            `json:"protocolVersion"`
		Arguments map[string]string `json:"arguments"`
	} `json:"params,omitzero"`
	Result any `json:"result,omitempty"`
	Error  any `json:"error,omitempty"`
}

// answerMCP answers for a server with one tool. nil means no answer.
func answerMCP(line []byte, remember func(text string)) *rpc {
	var q rpc
	if json.Unmarshal(line, &q) != nil || q.ID == nil {
		return nil
	}
	a := &rpc{Version: "2.0", ID: q.ID}
	switch q.Method {
	case "initialize":
		a.Result = map[string]any{
			"protocolVersion": q.Params.Protocol, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "memory", "version": "1"},
		}
	case "tools/list":
		a.Result = map[string]any{"tools": []any{map[string]any{
			"name": "remember", "description": "remembers a text",
			"inputSchema": map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}},
		}}}
	case "tools/call":
		remember(q.Params.Arguments["text"])
		a.Result = map[string]any{"content": []any{map[string]any{"type": "text", "text": "it is remembered"}}}
	case "ping":
		a.Result = map[string]any{}
	default:
		a.Error = map[string]any{"code": -32601, "message": "no such method"}
	}
	return a
}

// mcpServer is a server over HTTP.
func mcpServer(remember func(text string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/mcp" {
			http.Error(w, "not here", http.StatusMethodNotAllowed)
			return
		}
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		a := answerMCP(body, remember)
		if a == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a)
	})
}

// mcpInside is a server that an agent starts, with the protocol on its standard streams. It stores its
// calls in a file, with the kernel it runs on.
func mcpInside() int {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		a := answerMCP(lines.Bytes(), func(text string) {
			var u unix.Utsname
			_ = unix.Uname(&u)
			line := fmt.Sprintf("%s, on %s\n", text, unix.ByteSliceToString(u.Release[:]))
			_ = os.WriteFile("remembered.txt", []byte(line), 0o600)
		})
		if a != nil && json.NewEncoder(os.Stdout).Encode(a) != nil {
			return 1
		}
	}
	return 0
}
