package agent

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Servers come without secrets, or not at all.
func TestReadServers(t *testing.T) {
	const config = `{"oauthAccount":{"x":1},"mcpServers":{
		"plain":    {"type":"stdio","command":"npx","args":["-y","@acme/tasks"],"env":{}},
		"list":     {"type":"local","command":["tasks","--port","1"],"enabled":true},
		"copilot":  {"type":"local","command":"tasks","args":[],"tools":["*"]},
		"http":     {"type":"http","url":"https://mcp.example.com/mcp"},
		"env":      {"command":"x","env":{"API_KEY":"CANARY"}},
		"opencode": {"command":["x"],"environment":{"A":"CANARY"}},
		"header":   {"type":"http","url":"https://mcp.example.com","headers":{"Authorization":"CANARY"}},
		"argument": {"command":"x","args":["--api-key","CANARY"]},
		"joined":   {"command":"x","args":["--token=CANARY"]},
		"query":    {"type":"sse","url":"https://mcp.example.com/?k=CANARY"},
		"user":     {"type":"sse","url":"https://CANARY@mcp.example.com/"},
		"database": {"command":"x","args":["postgres://me:CANARY@db/x"]},
		"unknown":  {"command":"x","oauth":{"clientSecret":"CANARY"}},
		"number":   {"command":7},
		"word":     "CANARY"
	}}`
	servers, withheld, err := ReadServers("x.json", []byte(config), "mcpServers")
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(servers)); !slices.Equal(got, []string{"copilot", "http", "list", "plain"}) {
		t.Errorf("brought in: %v", got)
	}
	if len(withheld) != 11 {
		t.Errorf("withheld: %v", withheld)
	}
	text, err := AddServers("x.json", `{"a":1,"mcpServers":{"plain":{"command":"own"}}}`, "mcpServers", servers)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		A       int                       `json:"a"`
		Servers map[string]map[string]any `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || strings.Contains(text, "CANARY") {
		t.Fatalf("%v: %s", err, text)
	}
	if got.A != 1 || len(got.Servers) != 4 || got.Servers["plain"]["command"] != "own" {
		t.Errorf("%s", text)
	}
}

func TestReadServersOfNothing(t *testing.T) {
	for _, none := range []string{`{}`, `{"other":{}}`, `{"mcpServers":null}`, `{"mcpServers":{}}`} {
		servers, withheld, err := ReadServers("x.json", []byte(none), "mcpServers")
		if err != nil || len(servers)+len(withheld) > 0 {
			t.Errorf("%s: %v %v %v", none, servers, withheld, err)
		}
	}
	for _, bad := range []string{``, `[]`, `{"mcpServers":[]}`, `{"mcpServers":`} {
		if _, _, err := ReadServers("x.json", []byte(bad), "mcpServers"); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	if text, err := AddServers("x.json", "as it is", "k", nil); err != nil || text != "as it is" {
		t.Error(text, err)
	}
}

// Codex keeps them in TOML.
func TestServersInTOML(t *testing.T) {
	const config = `
model = "x"
[mcp_servers.plain]
command = "npx"
args = ["-y", "@acme/tasks"]
startup_timeout_sec = 20
tool_timeout_sec = 1.5
[mcp_servers.http]
url = "https://mcp.example.com/mcp"
[mcp_servers.env]
command = "x"
env = { API_KEY = "CANARY" }
[mcp_servers.table]
command = "x"
[mcp_servers.table.env]
API_KEY = "CANARY"
[mcp_servers.bearer]
url = "https://mcp.example.com/mcp"
bearer_token_env_var = "TOKEN"
[mcp_servers.argument]
command = "x"
args = ["--token", "CANARY"]
`
	servers, withheld, err := ReadServers("config.toml", []byte(config), "mcp_servers")
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(servers)); !slices.Equal(got, []string{"http", "plain"}) || len(withheld) != 4 {
		t.Errorf("brought in: %v, withheld: %v", got, withheld)
	}
	text, err := AddServers("config.toml", "check = false\n[mcp_servers.http]\nurl = \"https://own.example.com\"\n", "mcp_servers", servers)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := ReadServers("config.toml", []byte(text), "mcp_servers")
	if err != nil || string(again["plain"]) != `{"args":["-y","@acme/tasks"],"command":"npx","startup_timeout_sec":20,"tool_timeout_sec":1.5}` ||
		string(again["http"]) != `{"url":"https://own.example.com"}` || !strings.HasPrefix(text, "check = false\n") || strings.Contains(text, "CANARY") {
		t.Errorf("%v\n%s", err, text)
	}
	if same, err := AddServers("config.toml", text, "mcp_servers", servers); err != nil || same != text {
		t.Errorf("%v\n%s", err, same)
	}
	for _, bad := range []string{"a = ", "mcp_servers = 3"} {
		if _, _, err := ReadServers("config.toml", []byte(bad), "mcp_servers"); err == nil {
			t.Errorf("%q is read", bad)
		}
		if _, err := AddServers("config.toml", bad, "mcp_servers", servers); err == nil {
			t.Errorf("%q is added to", bad)
		}
	}
	if _, err := AddServers("config.toml", "mcp_servers = { own = { command = \"x\" } }\n", "mcp_servers", servers); err == nil {
		t.Error("an inline table is added to")
	}
	for _, none := range []string{"", "a = 1", "[mcp_servers]"} {
		if servers, withheld, err := ReadServers("config.toml", []byte(none), "mcp_servers"); err != nil || len(servers)+len(withheld) > 0 {
			t.Errorf("%q: %v %v %v", none, servers, withheld, err)
		}
	}
}
