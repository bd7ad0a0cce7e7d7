package modelserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/bothy-dev/bothy/internal/modelscript"
)

// gemini is the Gemini API, as the Gemini CLI speaks it with an API key.
type gemini struct{}

var _ api = gemini{}

func (gemini) name() string { return "gemini" }

type geminiRequest struct {
	Contents []geminiContent `json:"contents"`
	System   geminiContent   `json:"systemInstruction"`
	Tools    []struct {
		Declarations []struct {
			Name string `json:"name"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		Schema     map[string]any `json:"responseSchema"`
		JSONSchema map[string]any `json:"responseJsonSchema"`
	} `json:"generationConfig"`
}

type geminiContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text     string          `json:"text"`
		Response json.RawMessage `json:"functionResponse"`
	} `json:"parts"`
}

// geminiAction splits a path: /v1beta/models/model:action.
func geminiAction(path string) (model, action string) {
	for _, version := range []string{"/v1beta/models/", "/v1/models/"} {
		if rest, ok := strings.CutPrefix(path, version); ok {
			model, action, _ = strings.Cut(rest, ":")
		}
	}
	return model, action
}

func (gemini) readRequest(r *http.Request, body []byte) (dialogue, error) {
	var q geminiRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return dialogue{}, err
	}
	name, action := geminiAction(r.URL.Path)
	d := dialogue{model: name, stream: action == "streamGenerateContent", schema: q.Config.JSONSchema}
	if d.stream && r.URL.Query().Get("alt") != "sse" {
		return dialogue{}, errors.New("streams are given with alt=sse only")
	}
	if d.schema == nil {
		d.schema = q.Config.Schema
	}
	for _, t := range q.Tools {
		for _, f := range t.Declarations {
			d.offered = append(d.offered, offer{name: f.Name})
		}
	}
	for _, p := range q.System.Parts {
		d.addSystem(p.Text)
	}
	for _, c := range q.Contents {
		for _, p := range c.Parts {
			switch {
			case c.Role == "model":
				d.parts = append(d.parts, part{model, p.Text})
			case p.Response != nil:
				d.parts = append(d.parts, part{result, ""})
			default:
				d.parts = append(d.parts, part{user, p.Text})
			}
		}
	}
	return d, nil
}

// answerChunk returns a piece of an answer. finish is empty except for the last one.
func (gemini) answerChunk(a answer, parts []obj, finish string) obj {
	candidate := obj{"index": 0, "content": obj{"role": "model", "parts": parts}}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	return obj{
		"candidates": []obj{candidate}, "modelVersion": a.model, "responseId": a.id,
		"usageMetadata": obj{
			"promptTokenCount": a.usage.Input, "cachedContentTokenCount": a.usage.Cached,
			"candidatesTokenCount": a.usage.Output,
			"totalTokenCount":      a.usage.Input + a.usage.Output,
		},
	}
}

func (gemini) callParts(a answer) []obj {
	out := []obj{}
	for _, c := range a.calls {
		out = append(out, obj{"functionCall": obj{"id": "fc_" + c.id, "name": c.name, "args": c.args}})
	}
	return out
}

func (p gemini) wholeAnswer(a answer) obj {
	parts := p.callParts(a)
	if a.text != "" {
		parts = append([]obj{{"text": a.text}}, parts...)
	}
	return p.answerChunk(a, parts, "STOP")
}

func (p gemini) stream(a answer) []event {
	var out []event
	texts := pieces(a.text)
	if len(texts) == 0 && len(a.calls) == 0 {
		texts = []string{""}
	}
	for _, s := range texts {
		out = append(out, event{"", p.answerChunk(a, []obj{{"text": s}}, "")})
	}
	if len(a.calls) == 0 { // the reason must come with a part
		out[len(out)-1].data.(obj)["candidates"].([]obj)[0]["finishReason"] = "STOP"
		return out
	}
	return append(out, event{"", p.answerChunk(a, p.callParts(a), "STOP")})
}

func geminiStatus() map[int]string {
	return map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED",
		500: "INTERNAL", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	}
}

func (gemini) failure(f trouble) (obj, http.Header) {
	e := obj{"code": f.Status, "message": f.errorText(), "status": f.errorType(geminiStatus(), "INVALID_ARGUMENT", "INTERNAL")}
	if f.Limit != nil {
		quota := "GenerateRequestsPerMinutePerProjectPerModel"
		details := []obj{}
		if f.Limit.Kind == modelscript.LimitSubscription {
			quota = "GenerateRequestsPerDayPerProjectPerModel"
		} else {
			details = append(details, obj{
				"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%ds", seconds(f.Limit.Resets)),
			})
		}
		e["details"] = append(details, obj{
			"@type":      "type.googleapis.com/google.rpc.QuotaFailure",
			"violations": []obj{{"quotaMetric": "generativelanguage.googleapis.com/generate_content_requests", "quotaId": quota}},
		})
	}
	return obj{"error": e}, http.Header{}
}

func (gemini) failed(body obj) event { return event{"", body} }
