package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestReadServers checks that servers are returned without secrets, or withheld.
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
	servers, withheld, err := ReadServers(&spec.AgentServers{File: "x.json", Key: "mcpServers"}, []byte(config), "")
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

// TestWordsOfServers checks that the usual commands of servers are harmless. A word that
// looks like a secret, or is in a secret's place, is not.
func TestWordsOfServers(t *testing.T) {
	for text, want := range map[string]bool{
		`["npx","-y","@modelcontextprotocol/server-filesystem","/home/me/work"]`:                   true,
		`["npx","-y","tasks@npm:@acme/tasks@1.2.3"]`:                                               true,
		`["npx","mcp-remote","https://mcp.linear.app/sse"]`:                                        true,
		`["npx","-y","@playwright/mcp@latest","--viewport-size=1280,720"]`:                         true,
		`["uvx","--from","git+https://github.com/oraios/serena@main","serena","start-mcp-server"]`: true,
		`["uvx","mcp-server-sqlite","--db-path","/home/me/data.db"]`:                               true,
		`["python3","-u","/opt/server.py"]`:                                                        true,
		`["docker","run","-i","--rm","mcp/fetch:1.2"]`:                                             true,
		`["docker","run","-i","--rm","--mount","type=bind,src=/a,dst=/b","mcp/fs"]`:                true,
		`["deno","run","-A","jsr:@acme/tasks@1"]`:                                                  true,
		`["node","C:\\mcp\\server.js","--port=3000"]`:                                              true,
		`["tasks","--user","me"]`:                                                                  true,
		`["bash","/opt/tasks/start.sh","--port=1"]`:                                                true,
		`["cmd","/c","npx","-y","@acme/tasks"]`:                                                    true,
		`["node","--enable-source-maps","/opt/Some Tasks/server.js","--root=${HOME}/x"]`:           true,
		`["tasks","--mode=FAST","--set","a=b"]`:                                                    true,
		`["dotnet","run","--project","/src/MyCompanyInternalModelServer"]`:                         true,

		`["x","--dsn","root:hunter2@tcp(db:3306)/x"]`:                                  false,
		`["x","root:hunter2@tcp(db:3306)/x"]`:                                          false,
		`["x","--dsn","Server=db;Uid=me;"]`:                                            false,
		`["x","--connection-string=Server=db"]`:                                        false,
		`["x","--conn","db"]`:                                                          false,
		`["ctx7sk-12345678-1234-1234-1234-123456789012"]`:                              false,
		`["x","--id=ctx7sk-12345678-1234-1234-1234-123456789012"]`:                     false,
		`["x","hunterABCDEFGHIJKLMNOPQRSTUVWX"]`:                                       false,
		`["curl","-u","me:hunter2"]`:                                                   false,
		`["curl","-ume:hunter2"]`:                                                      false,
		`["curl","--user","me:hunter2"]`:                                               false,
		`["curl","--user=me:hunter2"]`:                                                 false,
		`["curl","-H","X-Acme: hunter2"]`:                                              false,
		`["npx","mcp-remote","https://mcp.acme.example","--header","X-Acme: hunter2"]`: false,
		`["docker","run","-e","ACME=hunter2","mcp/fs"]`:                                false,
		`["docker","run","--env=ACME=hunter2","mcp/fs"]`:                               false,
		`["docker","run","-eACME=hunter2","mcp/fs"]`:                                   false,
		`["env","ACME=hunter2","x"]`:                                                   false,
		`["x","postgres://me:hun/ter2@db/x"]`:                                          false,
		`["x","redis://hunter2@db/0"]`:                                                 false,
		`["curl","-sSu","me:hunter2"]`:                                                 false,
		`["curl","--proxy-user","me:hunter2"]`:                                         false,
		`["java","-DDB=hunter2","-jar","x.jar"]`:                                       false,
		`["env","db=hunter2","x"]`:                                                     false,
		`["docker","run","-e","db=hunter2","mcp/fs"]`:                                  false,
		`["git","clone","https://hunter2@git.acme.example/x"]`:                         false,
	} {
		if got := harmless(json.RawMessage(`{"command":` + text + `}`)); got != want {
			t.Errorf("%s: not %v", text, want)
		}
		var words []string
		if json.Unmarshal([]byte(text), &words) != nil {
			t.Fatal(text)
		}
		split, _ := json.Marshal(map[string]any{"command": words[0], "args": words[1:]})
		if got := harmless(split); got != want {
			t.Errorf("%s: not %v", split, want)
		}
	}
	for text, want := range map[string]bool{
		`{"type":"http","url":"https://mcp.example.com:8443/v1/mcp"}`:                          true,
		`{"type":"sse","url":"https://mcp.eu-west-1.example.com/sse","cwd":"/home/me/work"}`:   true,
		`{"type":"http","url":"https://mcp.example.com/u/hunterABCDEFGHIJKLMNOPQRSTUVWX/mcp"}`: false,
		`{"httpUrl":"https://mcp.example.com/ctx7sk-12345678-1234-1234-1234-123456789012"}`:    false,
		`{"command":"x","cwd":"/tmp/12345678-1234-1234-1234-123456789012"}`:                    false,
		`{"command":"x","tools":["a","sk1234567890abcdefgh"]}`:                                 false,
	} {
		if got := harmless(json.RawMessage(text)); got != want {
			t.Errorf("%s: not %v", text, want)
		}
	}
}

// TestServersOfProject checks that a project's servers are added to the others, and win on
// equal names. This also holds if the project's server is withheld.
func TestServersOfProject(t *testing.T) {
	const text = `{"mcpServers":{"all":{"command":"a"},"both":{"command":"a"},"closed":{"command":"a"}},"projects":{
		"/p":{"other":1,"mcpServers":{"own":{"command":"p"},"both":{"command":"p"},"closed":{"command":"p","env":{"K":"CANARY"}}}},
		"/q":{"mcpServers":{"never":{"command":"q"}}},"/bare":{}}}`
	at := &spec.AgentServers{File: "x.json", Key: "mcpServers", Projects: "projects"}
	for project, want := range map[string]string{
		"/p":    `{"all":{"command":"a"},"both":{"command":"p"},"own":{"command":"p"}} [closed]`,
		"/bare": `{"all":{"command":"a"},"both":{"command":"a"},"closed":{"command":"a"}} []`,
		"/none": `{"all":{"command":"a"},"both":{"command":"a"},"closed":{"command":"a"}} []`,
		"":      `{"all":{"command":"a"},"both":{"command":"a"},"closed":{"command":"a"}} []`,
	} {
		servers, withheld, err := ReadServers(at, []byte(text), project)
		b, _ := json.Marshal(servers)
		if got := fmt.Sprint(string(b), " ", withheld); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", project, got, err, want)
		}
	}
	servers, _, err := ReadServers(at, []byte(`{"projects":{"/p":{"mcpServers":{"own":{"command":"p"}}}}}`), "/p")
	if err != nil || len(servers) != 1 {
		t.Errorf("without others: %v %v", servers, err)
	}
	if _, _, err := ReadServers(at, []byte(`{"projects":{"/p":3}}`), "/p"); err == nil {
		t.Error("a project that is a number is read")
	}
	at.File = "x.toml"
	servers, _, err = ReadServers(at, []byte("[projects.\"/p\".mcpServers.own]\ncommand = \"p\"\n"), "/p")
	if err != nil || len(servers) != 1 {
		t.Errorf("in TOML: %v %v", servers, err)
	}
}

// TestLinesOfServers checks arguments that are lines with several words. It does not guess
// how a shell would split them.
func TestLinesOfServers(t *testing.T) {
	for text, want := range map[string]bool{
		`["tasks","--title","What is to be done"]`: true,
		`["tasks --root /home/me/work"]`:           true,
		`["npx","-y","@acme/tasks","-c","x.json"]`: true,

		`["bash","-c","export LC_ALL=C; export NOTION=ntn_4983rhfwe98fh3; exec npx x"]`: false,
		`["sh","-c","cd /x && DB=hunter2 exec npx x"]`:                                  false,
		`["sh","-c","cd /x&&DB='hunter2' npx x"]`:                                       false,
		`["sh","-c","curl -u me:hunter2 https://x | x"]`:                                false,
		`["sh","-c","exec x --user me:hunter2"]`:                                        false,
		`["/bin/bash","-lc","exec x"]`:                                                  false,
		`["bash","-o","pipefail","-c","exec x"]`:                                        false,
		`["fish","-c","set -x db hunter2; x"]`:                                          false,
		`["env","-i","zsh","-c","x"]`:                                                   false,
		`["python3.12","-c","import os; os.environ['db'] = 'hunter2'"]`:                 false,
		`["node","--eval","process.env.db = 'hunter2'"]`:                                false,
		`["sh -c 'db hunter2 exec npx x'"]`:                                             false,
		`["ssh","host","db=hunter2 x"]`:                                                 false,
		`["ssh","host","cd /x;DB=hunter2 x"]`:                                           false,
		`["env","-S","db=hunter2 x"]`:                                                   false,
		`["x","--start","curl -u me:hunter2 https://x"]`:                                false,
		`["cmd","/c","set","db=hunter2&&","x"]`:                                         false,
		`["cmd","/c","login hunter2"]`:                                                  false,
		`["npx","-c","login hunter2"]`:                                                  false,
		`["nodejs","-e","login('hunter2')"]`:                                            false,
		`["luajit","-e","x"]`:                                                           false,
		`["rbash","-c","x"]`:                                                            false,
		`["ipython3","-c","x"]`:                                                         false,
		`["npx","mcp-remote","https://x.example/sse?k=hunter2"]`:                        false,
		`["npx","mcp-remote","https://x.example/sse#hunter2"]`:                          false,
		`["npx","mcp-remote","https://x.example/sse"]`:                                  true,
	} {
		if got := harmless(json.RawMessage(`{"command":` + text + `}`)); got != want {
			t.Errorf("%s: not %v", text, want)
		}
	}
}

func TestReadServersOfNothing(t *testing.T) {
	for _, none := range []string{`{}`, `{"other":{}}`, `{"mcpServers":null}`, `{"mcpServers":{}}`} {
		servers, withheld, err := ReadServers(&spec.AgentServers{File: "x.json", Key: "mcpServers"}, []byte(none), "")
		if err != nil || len(servers)+len(withheld) > 0 {
			t.Errorf("%s: %v %v %v", none, servers, withheld, err)
		}
	}
	for _, bad := range []string{``, `[]`, `{"mcpServers":[]}`, `{"mcpServers":`} {
		if _, _, err := ReadServers(&spec.AgentServers{File: "x.json", Key: "mcpServers"}, []byte(bad), ""); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	if text, err := AddServers("x.json", "as it is", "k", nil); err != nil || text != "as it is" {
		t.Error(text, err)
	}
}

// TestServersInTOML checks servers in TOML, the format of Codex.
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
	servers, withheld, err := ReadServers(&spec.AgentServers{File: "config.toml", Key: "mcp_servers"}, []byte(config), "")
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
	again, _, err := ReadServers(&spec.AgentServers{File: "config.toml", Key: "mcp_servers"}, []byte(text), "")
	if err != nil || string(again["plain"]) != `{"args":["-y","@acme/tasks"],"command":"npx","startup_timeout_sec":20,"tool_timeout_sec":1.5}` ||
		string(again["http"]) != `{"url":"https://own.example.com"}` || !strings.HasPrefix(text, "check = false\n") || strings.Contains(text, "CANARY") {
		t.Errorf("%v\n%s", err, text)
	}
	if same, err := AddServers("config.toml", text, "mcp_servers", servers); err != nil || same != text {
		t.Errorf("%v\n%s", err, same)
	}
	for _, bad := range []string{"a = ", "mcp_servers = 3"} {
		if _, _, err := ReadServers(&spec.AgentServers{File: "config.toml", Key: "mcp_servers"}, []byte(bad), ""); err == nil {
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
		if servers, withheld, err := ReadServers(&spec.AgentServers{File: "config.toml", Key: "mcp_servers"}, []byte(none), ""); err != nil || len(servers)+len(withheld) > 0 {
			t.Errorf("%q: %v %v %v", none, servers, withheld, err)
		}
	}
}
