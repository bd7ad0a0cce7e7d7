package modelserver

import (
	"encoding/json"
	"maps"
	"net/http"
)

// responses is the Responses API of OpenAI.
type responses struct{ openai }

var _ api = responses{}

type responsesRequest struct {
	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Instructions string          `json:"instructions"`
	CacheKey     string          `json:"prompt_cache_key"`
	Input        responsesInput  `json:"input"`
	Tools        []responsesTool `json:"tools"`
	Text         struct {
		Format struct {
			Schema map[string]any `json:"schema"`
		} `json:"format"`
	} `json:"text"`
}

type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Tools []responsesTool `json:"tools"` // of a namespace
}

type responsesItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content content         `json:"content"`
	Tools   []responsesTool `json:"tools"` // of additional_tools
}

// responsesInput is a list of items, or a text instead of a user's message.
type responsesInput []responsesItem

func (in *responsesInput) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*in = responsesInput{{Type: "message", Role: "user", Content: content{{Text: text}}}}
		return nil
	}
	return json.Unmarshal(b, (*[]responsesItem)(in))
}

func (responses) readRequest(r *http.Request, body []byte) (dialogue, error) {
	var q responsesRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return dialogue{}, err
	}
	d := dialogue{
		model:   q.Model,
		session: firstHeader(r.Header, "Session-Id", "Session_id", "Thread-Id", "X-Session-Id"),
		stream:  q.Stream,
		system:  q.Instructions,
		schema:  q.Text.Format.Schema,
	}
	if d.session == "" {
		d.session = q.CacheKey
	}
	d.offerTools("", q.Tools)
	for _, i := range q.Input {
		d.addItem(i)
	}
	return d, nil
}

// offerTools adds tools. Those of the namespace "functions" are called as if they had no namespace.
func (d *dialogue) offerTools(namespace string, tools []responsesTool) {
	for _, t := range tools {
		switch {
		case t.Type == "namespace" && t.Name == "functions":
			d.offerTools("", t.Tools)
		case t.Type == "namespace":
			d.offerTools(t.Name, t.Tools)
		case t.Name != "":
			d.offered = append(d.offered, offer{name: t.Name, namespace: namespace, custom: t.Type == "custom"})
		}
	}
}

func (d *dialogue) addItem(i responsesItem) {
	switch i.Type {
	case "function_call", "custom_tool_call", "local_shell_call", "reasoning":
		d.parts = append(d.parts, part{model, ""})
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
		d.parts = append(d.parts, part{result, ""})
	case "additional_tools":
		d.offerTools("", i.Tools)
	case "message", "":
		d.message(i)
	}
}

func (d *dialogue) message(i responsesItem) {
	switch i.Role {
	case "assistant":
		d.parts = append(d.parts, part{model, i.Content.String()})
	case "user":
		for _, b := range i.Content {
			d.parts = append(d.parts, part{user, b.Text})
		}
	case "system":
		d.addSystem(i.Content.String())
	}
}

// answerItems returns the items of an answer.
func (responses) answerItems(a answer) []obj {
	out := []obj{}
	if a.text != "" {
		out = append(out, obj{
			"type": "message", "id": "msg_" + a.id, "role": "assistant", "status": "completed",
			"content": []obj{{"type": "output_text", "text": a.text, "annotations": []obj{}}},
		})
	}
	for _, c := range a.calls {
		item := obj{"call_id": "call_" + c.id, "name": c.name, "status": "completed"}
		if c.custom {
			item["type"], item["id"], item["input"] = "custom_tool_call", "ctc_"+c.id, c.input
		} else {
			item["type"], item["id"], item["arguments"] = "function_call", "fc_"+c.id, c.arguments()
		}
		if c.namespace != "" {
			item["namespace"] = c.namespace
		}
		out = append(out, item)
	}
	return out
}

func (p responses) wholeAnswer(a answer) obj {
	return obj{
		"id": "resp_" + a.id, "object": "response", "created_at": 0, "model": a.model, "status": "completed", "error": nil,
		"output": p.answerItems(a),
		"usage": obj{
			"input_tokens": a.usage.Input, "input_tokens_details": obj{"cached_tokens": a.usage.Cached},
			"output_tokens": a.usage.Output, "output_tokens_details": obj{"reasoning_tokens": 0},
			"total_tokens": a.usage.Input + a.usage.Output,
		},
	}
}

func (p responses) stream(a answer) []event {
	var out []event
	send := func(kind string, fields obj) {
		fields["type"], fields["sequence_number"] = kind, len(out)
		out = append(out, event{kind, fields})
	}
	begun := obj{"id": "resp_" + a.id, "object": "response", "created_at": 0, "model": a.model, "status": "in_progress", "output": []obj{}}
	send("response.created", obj{"response": begun})
	for i, item := range p.answerItems(a) {
		send("response.output_item.added", obj{"output_index": i, "item": beginItem(item)})
		for _, d := range itemDeltas(item, a.text) {
			d["item_id"], d["output_index"] = item["id"], i
			send(d["type"].(string), d)
		}
		send("response.output_item.done", obj{"output_index": i, "item": item})
	}
	send("response.completed", obj{"response": p.wholeAnswer(a)})
	return out
}

// beginItem returns an item before its content is sent.
func beginItem(item obj) obj {
	out := maps.Clone(item)
	out["status"] = "in_progress"
	switch item["type"] {
	case "message":
		out["content"] = []obj{}
	case "custom_tool_call":
		out["input"] = ""
	default:
		out["arguments"] = ""
	}
	return out
}

// itemDeltas returns the events that send an item in pieces.
func itemDeltas(item obj, text string) []obj {
	switch item["type"] {
	case "message":
		out := deltas(text, "response.output_text.delta", "delta")
		for _, d := range out {
			d["content_index"] = 0
		}
		return out
	case "custom_tool_call":
		return deltas(item["input"].(string), "response.custom_tool_call_input.delta", "delta")
	}
	return deltas(item["arguments"].(string), "response.function_call_arguments.delta", "delta")
}

func (responses) failed(body obj) event {
	e, _ := body["error"].(obj)
	why := obj{"code": e["code"], "message": e["message"]}
	if why["code"] == nil {
		why["code"] = e["type"]
	}
	return event{"response.failed", obj{"type": "response.failed", "response": obj{"object": "response", "status": "failed", "error": why}}}
}
