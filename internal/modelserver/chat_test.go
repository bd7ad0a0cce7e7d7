package modelserver

import (
	"strings"
	"testing"
)

// opencode is a request of opencode.
func opencode(stream bool, after ...obj) obj {
	messages := []obj{{"role": "system", "content": "You are opencode."}, {"role": "user", "content": "do it\n"}}
	tool := func(name string) obj { return obj{"type": "function", "function": obj{"name": name}} }
	return obj{
		"model": "m", "stream": stream, "stream_options": obj{"include_usage": true},
		"messages": append(messages, after...),
		"tools":    []obj{tool("bash"), tool("read"), tool("write"), tool("tasks_ready")},
	}
}

// joined assembles a completion from a stream of chunks.
func joined(t *testing.T, stream []byte) map[string]any {
	t.Helper()
	all := events(t, stream)
	equal(t, "end", all[len(all)-1].data, "[DONE]")
	message, calls := obj{"content": nil}, []obj{}
	var text strings.Builder
	out := obj{}
	for _, e := range all[:len(all)-1] {
		v := e.decode(t)
		equal(t, "object", v["object"], "chat.completion.chunk")
		out["id"], out["usage"] = v["id"], v["usage"]
		choice := at(v, "choices", 0)
		if f := at(choice, "finish_reason"); f != nil {
			out["finish_reason"] = f
		}
		if role := at(choice, "delta", "role"); role != nil {
			message["role"] = role
		}
		said, _ := at(choice, "delta", "content").(string)
		text.WriteString(said)
		call := at(choice, "delta", "tool_calls", 0)
		if call == nil {
			continue
		}
		n := int(at(call, "index").(float64))
		if n == len(calls) {
			equal(t, "type", at(call, "type"), "function")
			calls = append(calls, obj{"id": at(call, "id"), "name": at(call, "function", "name"), "arguments": ""})
		}
		calls[n]["arguments"] = calls[n]["arguments"].(string) + at(call, "function", "arguments").(string)
	}
	message["content"], message["tool_calls"] = text.String(), calls
	out["message"] = message
	return decode(t, encode(out))
}

func TestChat(t *testing.T) {
	_, url := serve(t, aScript)
	url += "/v1/chat/completions"
	whole := decode(t, ok(t, url, opencode(false)))
	stream := joined(t, ok(t, url, opencode(true)))
	equal(t, "id", stream["id"], whole["id"])
	equal(t, "usage", stream["usage"], whole["usage"])
	equal(t, "usage", at(whole, "usage", "total_tokens"), 1240)
	equal(t, "finish", stream["finish_reason"], "tool_calls")
	equal(t, "finish", at(whole, "choices", 0, "finish_reason"), "tool_calls")
	equal(t, "text", at(stream, "message", "content"), longText)
	equal(t, "text", at(whole, "choices", 0, "message", "content"), longText)
	equal(t, "role", at(stream, "message", "role"), "assistant")
	for i, want := range []struct{ name, args string }{
		{"write", `{"content":"one\n'two' ✓\n","filePath":"a b.txt"}`},
		{"bash", `{"command":"cat 'a b.txt'","description":"Run a command of the script"}`},
	} {
		s, w := at(stream, "message", "tool_calls", i), at(whole, "choices", 0, "message", "tool_calls", i)
		equal(t, "id", at(s, "id"), at(w, "id"))
		equal(t, "name", at(s, "name"), want.name)
		equal(t, "name", at(w, "function", "name"), want.name)
		equal(t, "arguments", at(s, "arguments"), want.args)
		equal(t, "arguments", at(w, "function", "arguments"), want.args)
	}

	last := joined(t, ok(t, url, opencode(true,
		obj{"role": "assistant", "content": nil, "tool_calls": at(whole, "choices", 0, "message", "tool_calls")},
		obj{"role": "tool", "content": "fine"}, obj{"role": "tool", "content": "fine"})))
	equal(t, "last turn", at(last, "message", "content"), "Done.")
	equal(t, "finish", last["finish_reason"], "stop")
}

func TestTitle(t *testing.T) {
	s, url := serve(t, aScript)
	got := joined(t, ok(t, url+"/v1/chat/completions", obj{
		"model": "m", "stream": true, "messages": []obj{
			{"role": "system", "content": "You are a title generator. You output ONLY a thread title."},
			{"role": "user", "content": "Generate a title for this conversation:\n"},
			{"role": "user", "content": "do it\n"},
		},
	}))
	if at(got, "message", "content") == "" {
		t.Error("no title")
	}
	equal(t, "outcome", s.Requests()[0].Outcome, Aside)
	equal(t, "turn", s.Requests()[0].Turn, -1)
}
