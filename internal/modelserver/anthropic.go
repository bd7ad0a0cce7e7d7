package modelserver

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/internal/modelscript"
)

// anthropic is the Messages API.
type anthropic struct{}

var _ api = anthropic{}

func (anthropic) name() string { return "anthropic" }

type messagesRequest struct {
	Model    string  `json:"model"`
	Stream   bool    `json:"stream"`
	System   content `json:"system"`
	Messages []struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
	Output struct {
		Format struct {
			Schema map[string]any `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
}

func (anthropic) readRequest(r *http.Request, body []byte) (dialogue, error) {
	var q messagesRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return dialogue{}, err
	}
	d := dialogue{
		model:   q.Model,
		session: firstHeader(r.Header, "X-Claude-Code-Session-Id", "X-Session-Id"),
		stream:  q.Stream,
		system:  q.System.String(),
		schema:  q.Output.Format.Schema,
	}
	for _, t := range q.Tools {
		d.offered = append(d.offered, offer{name: t.Name})
	}
	for _, m := range q.Messages {
		for _, b := range m.Content {
			switch {
			case m.Role == "assistant":
				d.parts = append(d.parts, part{model, b.Text})
			case m.Role == "user" && b.Type == "tool_result":
				d.parts = append(d.parts, part{result, b.Text})
			case m.Role == "user" && b.Type == "text":
				d.parts = append(d.parts, part{user, b.Text})
			}
		}
	}
	return d, nil
}

// message returns the answer with this content.
func (anthropic) message(a answer, blocks []obj, stop any, output int) obj {
	return obj{
		"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": a.model,
		"content": blocks, "stop_reason": stop, "stop_sequence": nil,
		"usage": obj{
			"input_tokens":                a.usage.Input - a.usage.Cached,
			"cache_read_input_tokens":     a.usage.Cached,
			"cache_creation_input_tokens": 0,
			"output_tokens":               output,
		},
	}
}

func (anthropic) stopReason(a answer) string {
	if len(a.calls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func (p anthropic) wholeAnswer(a answer) obj {
	blocks := []obj{}
	if a.text != "" {
		blocks = append(blocks, obj{"type": "text", "text": a.text})
	}
	for _, c := range a.calls {
		blocks = append(blocks, obj{"type": "tool_use", "id": "toolu_" + c.id, "name": c.name, "input": c.args})
	}
	return p.message(a, blocks, p.stopReason(a), a.usage.Output)
}

func (p anthropic) stream(a answer) []event {
	var out []event
	send := func(kind string, fields obj) {
		fields["type"] = kind
		out = append(out, event{kind, fields})
	}
	index := 0
	block := func(start obj, deltas []obj) {
		send("content_block_start", obj{"index": index, "content_block": start})
		for _, d := range deltas {
			send("content_block_delta", obj{"index": index, "delta": d})
		}
		send("content_block_stop", obj{"index": index})
		index++
	}

	send("message_start", obj{"message": p.message(a, []obj{}, nil, 1)})
	send("ping", obj{})
	if a.text != "" {
		block(obj{"type": "text", "text": ""}, deltas(a.text, "text_delta", "text"))
	}
	for _, c := range a.calls {
		block(obj{"type": "tool_use", "id": "toolu_" + c.id, "name": c.name, "input": obj{}},
			deltas(c.arguments(), "input_json_delta", "partial_json"))
	}
	send("message_delta", obj{
		"delta": obj{"stop_reason": p.stopReason(a), "stop_sequence": nil},
		"usage": obj{"output_tokens": a.usage.Output},
	})
	send("message_stop", obj{})
	return out
}

func deltas(text, kind, key string) []obj {
	var out []obj
	for _, s := range pieces(text) {
		out = append(out, obj{"type": kind, key: s})
	}
	return out
}

func anthropicTypes() map[int]string {
	return map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error",
	}
}

func (anthropic) failure(f trouble) (obj, http.Header) {
	body := obj{
		"type":  "error",
		"error": obj{"type": f.errorType(anthropicTypes(), "invalid_request_error", "api_error"), "message": f.errorText()},
	}
	h := http.Header{}
	if f.Limit == nil {
		return body, h
	}
	resets := f.resets()
	h.Set("Retry-After", strconv.FormatInt(seconds(f.Limit.Resets), 10))
	switch {
	case f.Limit.Kind == modelscript.LimitSubscription:
		unix := strconv.FormatInt(resets.Unix(), 10)
		h.Set("anthropic-ratelimit-unified-status", "rejected")
		h.Set("anthropic-ratelimit-unified-reset", unix)
		h.Set("anthropic-ratelimit-unified-representative-claim", "five_hour")
		h.Set("anthropic-ratelimit-unified-5h-status", "rejected")
		h.Set("anthropic-ratelimit-unified-5h-reset", unix)
		h.Set("anthropic-ratelimit-unified-5h-utilization", "1.0")
		h.Set("anthropic-ratelimit-unified-overage-status", "rejected")
	default:
		h.Set("anthropic-ratelimit-requests-limit", "50")
		h.Set("anthropic-ratelimit-requests-remaining", "0")
		h.Set("anthropic-ratelimit-requests-reset", resets.UTC().Format(time.RFC3339))
	}
	return body, h
}

func (anthropic) failed(body obj) event { return event{"error", body} }
