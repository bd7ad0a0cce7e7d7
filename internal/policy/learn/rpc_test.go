package learn

import (
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy/rpccall"
	"github.com/bothy-dev/bothy/spec"
)

// TestLearnCalls checks that a proposal names the refused calls and no others.
func TestLearnCalls(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, "call/"+strings.Repeat("x", i+1))
	}
	l := New(policyOf(t, `{allow: [{host: "mcp.example.com:443", paths: [/mcp], rpc: [initialize, "notifications/*", tools/list, "tools/call search_*", tools/call get]}]}`), noon)
	for _, calls := range []string{
		"tools/call delete_all", rpccall.Text([]string{"tools/call a", "b"}), "tools/list", "", "tools/call", rpccall.Text(many), "tools/call x,y",
	} {
		l.See(&spec.NetworkRecord{
			Event: spec.NetworkRequest, Name: "mcp.example.com", Port: 443, Method: "POST", Path: "/mcp", RPC: calls, Verdict: spec.VerdictDeny, Time: noon,
		})
	}
	var got []string
	for _, p := range l.Proposals() {
		got = append(got, p.Rule.String())
	}
	slices.Sort(got)
	if want := []string{"mcp.example.com:443 /mcp rpc tools/call a, b", "mcp.example.com:443 /mcp rpc tools/call delete_all"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
