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
	servers, withheld, err := ReadServers([]byte(config), "mcpServers")
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(servers)); !slices.Equal(got, []string{"http", "list", "plain"}) {
		t.Errorf("brought in: %v", got)
	}
	if len(withheld) != 11 {
		t.Errorf("withheld: %v", withheld)
	}
	text, err := AddServers(`{"a":1,"mcpServers":{"plain":{"command":"own"}}}`, "mcpServers", servers)
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
	if got.A != 1 || len(got.Servers) != 3 || got.Servers["plain"]["command"] != "own" {
		t.Errorf("%s", text)
	}
}

func TestReadServersOfNothing(t *testing.T) {
	for _, none := range []string{`{}`, `{"other":{}}`, `{"mcpServers":null}`, `{"mcpServers":{}}`} {
		servers, withheld, err := ReadServers([]byte(none), "mcpServers")
		if err != nil || len(servers)+len(withheld) > 0 {
			t.Errorf("%s: %v %v %v", none, servers, withheld, err)
		}
	}
	for _, bad := range []string{``, `[]`, `{"mcpServers":[]}`, `{"mcpServers":`} {
		if _, _, err := ReadServers([]byte(bad), "mcpServers"); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	if text, err := AddServers("as it is", "k", nil); err != nil || text != "as it is" {
		t.Error(text, err)
	}
}
