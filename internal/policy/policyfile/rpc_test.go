package policyfile

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
)

func TestCallsInRules(t *testing.T) {
	for rule, want := range map[string]string{
		"allow: [{host: a.example, rpc: [tools/list, tools/call, tools/call a, tools/call *, response, '*', tools/*, eth_call, $/x]}]": "",
		"allow: [{host: a.example, rpc: [a], methods: [POST, GET, DELETE], paths: [/x], max_body: 5, query: [a=b], inspect: true}]":    "",
		"allow: [{host: a.example, rpc: []}]":                                 "rpc is empty",
		"allow: [{host: a.example, rpc: null}]":                               "and is nothing",
		"allow: [{host: a.example, rpc: a}]":                                  "rpc has to be a list, and is text",
		"allow: [{host: a.example, rpc: [1]}]":                                "is a number",
		"allow: [{host: a.example, rpc: ['']}]":                               "is not a JSON-RPC method",
		"allow: [{host: a.example, rpc: [a, a]}]":                             "stands twice",
		"allow: [{host: a.example, rpc: ['a*b']}]":                            "is not a JSON-RPC method",
		"allow: [{host: a.example, rpc: ['a**']}]":                            "is not a JSON-RPC method",
		"allow: [{host: a.example, rpc: ['a b']}]":                            "has a space",
		"allow: [{host: a.example, rpc: ['tools/call ']}]":                    "is not a JSON-RPC method",
		"allow: [{host: a.example, rpc: ['tools/call a b']}]":                 "is not a JSON-RPC method",
		"allow: [{host: a.example, rpc: ['tools/* a']}]":                      "has a space",
		"allow: [{host: a.example, rpc: ['tools/call  a']}]":                  "is not a JSON-RPC method",
		"allow: [{host: a.example, rpc: [ä]}]":                                "is not a JSON-RPC method",
		"allow: [{host: a.example, rpc: ['a,b']}]":                            "is not a JSON-RPC method",
		"allow: [{host: a.example, rpc: [a], methods: [GET]}]":                "which methods leaves out",
		"allow: [{host: a.example, rpc: [a], methods: [POST, PUT]}]":          "does not go with method",
		"allow: [{host: a.example, rpc: [a], websocket: true}]":               "exclude each other",
		"allow: [{host: a.example, rpc: [a], passthrough: true}]":             "exclude each other",
		"deny: [{host: a.example, rpc: [a]}]":                                 "belongs to rules that allow",
		"allow: [{host: a.example, rpc: [" + strings.Repeat("x", 129) + "]}]": "is not a JSON-RPC method",
	} {
		f, err := Decode([]byte("version: 1\n" + rule + "\n"))
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", rule, err, want)
		case want == "" && err != nil:
			t.Errorf("%s: %v", rule, err)
		case want == "":
			again, err := Decode((&File{Block: f.Block}).Encode())
			if err != nil || again.Allow[0].Key() != f.Allow[0].Key() || len(again.Allow[0].HTTP.RPC) != len(f.Allow[0].HTTP.RPC) {
				t.Errorf("%s is written as %+v, %v", rule, again, err)
			}
		}
	}
	a, b := rule(t, policy.Allow, "a.example"), rule(t, policy.Allow, "a.example")
	a.HTTP.RPC, b.HTTP.RPC = []string{"x", "y"}, []string{"y", "x"}
	if a.ID() != b.ID() || a.ID() == func() string { r := rule(t, policy.Allow, "a.example"); return r.ID() }() {
		t.Error("the order of calls makes another rule, or calls make none")
	}
	if got := a.String(); got != "a.example rpc x, y" {
		t.Errorf("it is shown as %q", got)
	}
}
