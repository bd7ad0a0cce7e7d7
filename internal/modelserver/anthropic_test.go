package modelserver

import (
	"strings"
	"testing"
)

// claude is a request of Claude Code, with the parts it adds around a prompt, and its
// tools.
func claude(stream bool, after ...obj) obj {
	messages := []obj{
		{"role": "user", "content": []obj{
			{"type": "text", "text": "<system-reminder>\nToday is Sunday.\n</system-reminder>\n"},
			{"type": "text", "text": "do it"},
		}},
		{"role": "system", "content": "Available agent types: none"},
	}
	return obj{
		"model": "claude-opus-4-8", "stream": stream, "max_tokens": 64000,
		"system":   []obj{{"type": "text", "text": "You are a Claude agent."}},
		"messages": append(messages, after...),
		"tools":    []obj{{"name": "Bash"}, {"name": "Read"}, {"name": "Write"}, {"name": "mcp__tasks__ready"}},
	}
}

// claudeResults are the messages of Claude Code after the first turn of aScript.
func claudeResults(message map[string]any) []obj {
	calls := message["content"].([]any)[1:]
	var results []obj
	for _, c := range calls {
		results = append(results, obj{"type": "tool_result", "tool_use_id": at(c, "id"), "content": "fine"})
	}
	return []obj{
		{"role": "assistant", "content": message["content"]},
		{"role": "user", "content": append(results, obj{"type": "text", "text": "<system-reminder>\nmind the gap\n</system-reminder>"})},
	}
}

// heard reassembles a stream of the Messages API.
func heard(t *testing.T, stream []byte) map[string]any {
	t.Helper()
	var message map[string]any
	var blocks []any
	var partial strings.Builder
	all := events(t, stream)
	for i, e := range all {
		v := e.decode(t)
		if v["type"] != e.name {
			t.Errorf("event %q has type %q", e.name, v["type"])
		}
		switch e.name {
		case "message_start":
			message = v["message"].(map[string]any)
		case "content_block_start":
			partial.Reset()
			blocks = append(blocks, v["content_block"])
			equal(t, "index", v["index"], len(blocks)-1)
		case "content_block_delta":
			text, _ := at(v, "delta", "text").(string)
			args, _ := at(v, "delta", "partial_json").(string)
			partial.WriteString(text + args)
		case "content_block_stop":
			b := blocks[len(blocks)-1].(map[string]any)
			if b["type"] == "text" {
				b["text"] = partial.String()
			} else {
				b["input"] = decode(t, []byte(partial.String()))
			}
		case "message_delta":
			message["stop_reason"] = at(v, "delta", "stop_reason")
			at(message, "usage").(map[string]any)["output_tokens"] = at(v, "usage", "output_tokens")
		case "message_stop":
			if i != len(all)-1 {
				t.Error("something follows on message_stop")
			}
		}
	}
	message["content"] = blocks
	return message
}

func TestMessages(t *testing.T) {
	_, url := serve(t, aScript)
	url += "/v1/messages?beta=true"

	whole := decode(t, ok(t, url, claude(false)))
	equal(t, "the stream put together", heard(t, ok(t, url, claude(true))), whole)
	equal(t, "content without ids", at(whole, "content", 0), obj{"type": "text", "text": longText})
	equal(t, "name", at(whole, "content", 1, "name"), "Write")
	equal(t, "input", at(whole, "content", 1, "input"), obj{"file_path": "a b.txt", "content": "one\n'two' ✓\n"})
	equal(t, "name", at(whole, "content", 2, "name"), "Bash")
	equal(t, "command", at(whole, "content", 2, "input", "command"), "cat 'a b.txt'")
	equal(t, "stop reason", whole["stop_reason"], "tool_use")
	equal(t, "usage", whole["usage"], obj{
		"input_tokens": 1000, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 0, "output_tokens": 40,
	})
	if at(whole, "content", 1, "id") == at(whole, "content", 2, "id") {
		t.Error("two calls have one id")
	}

	last := heard(t, ok(t, url, claude(true, claudeResults(whole)...)))
	equal(t, "last turn", at(last, "content", 0, "text"), "Done.")
	equal(t, "stop reason", last["stop_reason"], "end_turn")
	if last["id"] == whole["id"] {
		t.Error("two turns have one id: clients merge them")
	}
}

func TestMessagesErrors(t *testing.T) {
	s, url := serve(t, "turns: [{text: hi}]")
	resp, body := post(t, url+"/v1/nothing", "{}", "anthropic-version", "2023-06-01")
	equal(t, "status", resp.StatusCode, 404)
	equal(t, "type", at(decode(t, body), "type"), "error")
	equal(t, "error", at(decode(t, body), "error", "type"), "not_found_error")
	equal(t, "counted", decode(t, ok(t, url+"/v1/messages/count_tokens", strings.Repeat(" ", 400))), obj{"input_tokens": 100})

	s.RequireKey = "sk-real"
	resp, body = post(t, url+"/v1/messages", claude(true), "x-api-key", "dummy")
	equal(t, "status", resp.StatusCode, 401)
	equal(t, "error", at(decode(t, body), "error", "type"), "authentication_error")
	ok(t, url+"/v1/messages", claude(true), "x-api-key", "sk-real")
	ok(t, url+"/v1/messages", claude(true), "Authorization", "Bearer sk-real")
}
