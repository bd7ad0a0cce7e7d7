package modelserver

import (
	"encoding/json"
	"net/http"
)

// chat is OpenAI's chat completions, which many other providers use as well.
type chat struct{ openai }

var _ api = chat{}

type chatRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	Format struct {
		Schema struct {
			Schema map[string]any `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func (chat) readRequest(r *http.Request, body []byte) (dialogue, error) {
	var q chatRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return dialogue{}, err
	}
	d := dialogue{
		model:   q.Model,
		session: firstHeader(r.Header, "X-Session-Id", "X-Session-Affinity"),
		stream:  q.Stream,
		schema:  q.Format.Schema.Schema,
	}
	for _, t := range q.Tools {
		d.offered = append(d.offered, offer{name: t.Function.Name})
	}
	for _, m := range q.Messages {
		switch text := m.Content.String(); m.Role {
		case "system", "developer":
			d.addSystem(text)
		case "user":
			for _, b := range m.Content {
				d.parts = append(d.parts, part{user, b.Text})
			}
		case "assistant":
			d.parts = append(d.parts, part{model, text})
		case "tool":
			d.parts = append(d.parts, part{result, text})
		}
	}
	return d, nil
}

func (chat) completion(a answer, object string, choices []obj) obj {
	return obj{"id": "chatcmpl-" + a.id, "object": object, "created": 0, "model": a.model, "choices": choices}
}

func (chat) usageObject(a answer) obj {
	return obj{
		"prompt_tokens": a.usage.Input, "prompt_tokens_details": obj{"cached_tokens": a.usage.Cached},
		"completion_tokens": a.usage.Output,
		"total_tokens":      a.usage.Input + a.usage.Output,
	}
}

func (chat) finish(a answer) string {
	if len(a.calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func (p chat) wholeAnswer(a answer) obj {
	m := obj{"role": "assistant", "content": nil}
	if a.text != "" {
		m["content"] = a.text
	}
	var calls []obj
	for _, c := range a.calls {
		calls = append(calls, obj{"id": "call_" + c.id, "type": "function", "function": obj{"name": c.name, "arguments": c.arguments()}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	out := p.completion(a, "chat.completion", []obj{{"index": 0, "message": m, "finish_reason": p.finish(a)}})
	out["usage"] = p.usageObject(a)
	return out
}

func (p chat) stream(a answer) []event {
	var out []event
	send := func(delta obj, finish any) {
		out = append(out, event{"", p.completion(a, "chat.completion.chunk", []obj{{"index": 0, "delta": delta, "finish_reason": finish}})})
	}
	send(obj{"role": "assistant", "content": ""}, nil)
	for _, s := range pieces(a.text) {
		send(obj{"content": s}, nil)
	}
	for i, c := range a.calls {
		send(obj{"tool_calls": []obj{{"index": i, "id": "call_" + c.id, "type": "function", "function": obj{"name": c.name, "arguments": ""}}}}, nil)
		for _, s := range pieces(c.arguments()) {
			send(obj{"tool_calls": []obj{{"index": i, "function": obj{"arguments": s}}}}, nil)
		}
	}
	send(obj{}, p.finish(a))
	last := p.completion(a, "chat.completion.chunk", []obj{})
	last["usage"] = p.usageObject(a)
	return append(out, event{"", last}, event{"", done{}})
}

func (chat) failed(body obj) event { return event{"", body} }
