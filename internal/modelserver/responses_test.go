package modelserver

import (
	"net/http"
	"strings"
	"testing"
)

// codex is a request of Codex.
func codex(after ...obj) obj {
	input := []obj{
		{"type": "message", "role": "developer", "content": []obj{{"type": "input_text", "text": "You are a coding agent."}}},
		{"type": "message", "role": "user", "content": []obj{{"type": "input_text", "text": "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>"}}},
		{"type": "message", "role": "user", "content": []obj{{"type": "input_text", "text": "do it"}}},
	}
	return obj{
		"model": "stub-model", "stream": true, "input": append(input, after...),
		"tools": []obj{
			{"type": "function", "name": "exec_command"},
			{"type": "namespace", "name": "mcp__tasks", "tools": []obj{{"type": "function", "name": "ready"}}},
			{"type": "web_search"},
		},
	}
}

// followed checks the order of a stream of the Responses API, and returns its last response.
func followed(t *testing.T, stream []byte) map[string]any {
	t.Helper()
	all := events(t, stream)
	var items []any
	var said strings.Builder
	for i, e := range all {
		v := e.decode(t)
		equal(t, "type", v["type"], e.name)
		equal(t, "number", v["sequence_number"], i)
		switch e.name {
		case "response.output_item.added":
			said.Reset()
			equal(t, "status", at(v, "item", "status"), "in_progress")
		case "response.output_item.done":
			items = append(items, v["item"])
			whole, _ := at(v, "item", "content", 0, "text").(string)
			for _, key := range []string{"arguments", "input"} {
				if s, ok := at(v, "item", key).(string); ok {
					whole = s
				}
			}
			equal(t, "deltas put together", said.String(), whole)
		default:
			if d, ok := v["delta"].(string); ok {
				said.WriteString(d)
			}
		}
	}
	last := all[len(all)-1]
	equal(t, "first", all[0].name, "response.created")
	equal(t, "last", last.name, "response.completed")
	response := last.decode(t)["response"].(map[string]any)
	equal(t, "items", items, response["output"])
	return response
}

func TestResponses(t *testing.T) {
	_, url := serve(t, aScript)
	for _, path := range []string{"/v1/responses", "/backend-api/codex/responses"} {
		r := followed(t, ok(t, url+path, codex()))
		equal(t, "text", at(r, "output", 0, "content", 0, "text"), longText)
		equal(t, "name", at(r, "output", 1, "name"), "exec_command")
		equal(t, "patch", at(decode(t, []byte(at(r, "output", 1, "arguments").(string))), "cmd"),
			"apply_patch <<'END_OF_PATCH'\n*** Begin Patch\n*** Add File: a b.txt\n+one\n+'two' ✓\n*** End Patch\nEND_OF_PATCH\n")
		equal(t, "arguments", at(r, "output", 2, "arguments"), `{"cmd":"cat 'a b.txt'","yield_time_ms":30000}`)
		equal(t, "input tokens", at(r, "usage", "input_tokens"), 1200)
		equal(t, "cached tokens", at(r, "usage", "input_tokens_details", "cached_tokens"), 200)

		var after []obj
		for _, item := range r["output"].([]any) {
			after = append(after, item.(map[string]any))
		}
		for _, c := range after[1:] {
			after = append(after, obj{"type": "function_call_output", "call_id": c["call_id"], "output": "fine"})
		}
		r = followed(t, ok(t, url+path, codex(after...)))
		equal(t, "last turn", at(r, "output", 0, "content", 0, "text"), "Done.")
	}
}

// TestResponsesJavaScript checks that models that write JavaScript get their tools in an item of the
// input.
func TestResponsesJavaScript(t *testing.T) {
	_, url := serve(t, "turns: [{tools: [{run_command: {command: 'echo \"hi\"'}}]}]")
	body := codex(obj{"type": "additional_tools", "tools": []obj{
		{"type": "namespace", "name": "functions", "tools": []obj{{"type": "custom", "name": "exec"}}},
	}})
	body["tools"] = []obj{}
	r := followed(t, ok(t, url+"/v1/responses", body))
	equal(t, "type", at(r, "output", 0, "type"), "custom_tool_call")
	equal(t, "input", at(r, "output", 0, "input"), `const r = await tools.exec_command({cmd: "echo \"hi\"", yield_time_ms: 30000}); text(r);`)
}

func TestWebSocketRefused(t *testing.T) {
	s, url := serve(t, "turns: [{text: hi}]")
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/responses", nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	equal(t, "status", resp.StatusCode, http.StatusUpgradeRequired)
	equal(t, "outcome", s.Requests()[0].Outcome, Refused)
}

func TestOpenAIErrors(t *testing.T) {
	s, url := serve(t, "turns: [{text: hi}]")
	s.RequireKey = "sk-real"
	resp, body := post(t, url+"/v1/responses", codex(), "Authorization", "Bearer dummy")
	equal(t, "status", resp.StatusCode, 401)
	equal(t, "code", at(decode(t, body), "error", "code"), "invalid_api_key")
	ok(t, url+"/v1/responses", codex(), "Authorization", "Bearer sk-real")
	resp, body = post(t, url+"/v1/embeddings", "{}")
	equal(t, "status", resp.StatusCode, 404)
	equal(t, "type", at(decode(t, body), "error", "type"), "invalid_request_error")
}
