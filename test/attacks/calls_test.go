package attacks

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
	"github.com/bothy-dev/bothy/test/stage"
)

// calls checks which calls a rule about JSON-RPC lets through (B8): the bytes that were judged, and no
// call that it does not name, however it is spelled.
func (s *service) calls(t *testing.T, c *harness.Caller, st *stage.Stage, curl func(...string) harness.Result) {
	t.Helper()
	const mcp, other = "mcp.example.net:8443", "tools.example.net:8443"
	st.Leads("mcp.example.net", stage.Host4.String())
	st.Leads("tools.example.net", stage.Host4.String())
	c.Must(t, "policy", "allow", mcp, "--path", "/mcp", "--rpc", "initialize", "--rpc", "tools/list", "--rpc", "tools/call search_*")
	c.Must(t, "policy", "allow", other, "--path", "/mcp", "--rpc", "tools/call delete_all")
	post := func(version, host, body string, more ...string) harness.Result {
		return curl(append([]string{version, "https://" + host + "/mcp", "-H", "Content-Type: application/json", "--data-raw", body}, more...)...)
	}
	const list, deletes = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_all"}}`
	for _, version := range []string{"--http1.1", "--http2"} {
		for _, body := range []string{list, ` [` + list + `, {"method":"tools\/call","jsonrpc":"2.0","params":{"n\u0061me":"search_x","arguments":{"n":1.0}}}] `} {
			for _, more := range [][]string{nil, {"-H", "Expect: 100-continue"}, {"-H", "Transfer-Encoding: chunked"}} {
				if version == "--http2" && len(more) > 0 {
					continue
				}
				if r := post(version, mcp, body, more...); !strings.Contains(r.Stdout, " 200") || !strings.Contains(s.saw(), "]\n"+body+"\n") {
					t.Errorf("%s, %q: %s: %v", version, more, body, r)
				}
			}
		}
		for what, body := range map[string]string{
			"another tool":       deletes,
			"a batch":            "[" + list + "," + deletes + "]",
			"a key twice":        `{"jsonrpc":"2.0","method":"tools/list","method":"tools/call","params":{"name":"delete_all"}}`,
			"a key twice, other": `{"jsonrpc":"2.0","method":"tools/list","\u006dethod":"tools/call","params":{"name":"delete_all"}}`,
			"capitals":           `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"search_x","Name":"delete_all"}}`,
			"escapes":            `{"jsonrpc":"2.0","\u006dethod":"tools\/call","params":{"name":"\u0064elete_all"}}`,
			"something behind":   list + deletes,
			"no JSON":            "method=tools/call&name=delete_all",
		} {
			if r := post(version, mcp, body); !strings.Contains(r.Stdout, " 403") || !strings.Contains(r.Stdout, "bothy: ") || s.saw() != "" {
				t.Errorf("%s, %s: %v", version, what, r)
			}
		}
		if r := post(version, mcp, list, "-H", "Content-Type: text/plain"); !strings.Contains(r.Stdout, " 403") || s.saw() != "" {
			t.Errorf("%s, another type: %v", version, r)
		}
		// A tool of the same name elsewhere belongs to the other server.
		if r := post(version, other, deletes); !strings.Contains(r.Stdout, " 200") || !strings.Contains(s.saw(), deletes) {
			t.Errorf("%s, at another server: %v", version, r)
		}
		if r := post(version, other, list); !strings.Contains(r.Stdout, " 403") || s.saw() != "" {
			t.Errorf("%s, at another server: %v", version, r)
		}
	}
	if out := c.Must(t, "policy", "learn", "box"); !strings.Contains(out, "--rpc 'tools/call delete_all'") {
		t.Errorf("it is not proposed: %s", out)
	}
}
