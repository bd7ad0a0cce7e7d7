package modelserver

import (
	"strings"
	"testing"
)

// geminiCLI is a request of the Gemini CLI.
func geminiCLI(after ...obj) obj {
	contents := []obj{{"role": "user", "parts": []obj{
		{"text": "<session_context>\nThis is the Gemini CLI.\n</session_context>"}, {"text": "do it"},
	}}}
	return obj{
		"contents":          append(contents, after...),
		"systemInstruction": obj{"role": "user", "parts": []obj{{"text": "You are Gemini CLI."}}},
		"tools": []obj{{"functionDeclarations": []obj{
			{"name": "read_file"}, {"name": "write_file"}, {"name": "run_shell_command"}, {"name": "mcp_tasks_ready"},
		}}},
	}
}

const geminiStream = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"

// parts reassembles a stream: its text, its other parts, and the last chunk.
func parts(t *testing.T, stream []byte) (string, []any, map[string]any) {
	t.Helper()
	var text strings.Builder
	var rest []any
	all := events(t, stream)
	for i, e := range all {
		v := e.decode(t)
		if last := i == len(all)-1; last != (at(v, "candidates", 0, "finishReason") == "STOP") {
			t.Errorf("chunk %d of %d: finish reason %v", i, len(all), at(v, "candidates", 0, "finishReason"))
		}
		for _, p := range at(v, "candidates", 0, "content", "parts").([]any) {
			if s, ok := at(p, "text").(string); ok {
				text.WriteString(s)
			} else {
				rest = append(rest, p)
			}
		}
	}
	return text.String(), rest, all[len(all)-1].decode(t)
}

func TestGemini(t *testing.T) {
	_, url := serve(t, aScript)
	text, calls, last := parts(t, ok(t, url+geminiStream, geminiCLI()))
	equal(t, "text", text, longText)
	equal(t, "name", at(calls, 0, "functionCall", "name"), "write_file")
	equal(t, "arguments", at(calls, 0, "functionCall", "args"), obj{"file_path": "a b.txt", "content": "one\n'two' ✓\n"})
	equal(t, "name", at(calls, 1, "functionCall", "name"), "run_shell_command")
	equal(t, "usage", last["usageMetadata"], obj{
		"promptTokenCount": 1200, "cachedContentTokenCount": 200, "candidatesTokenCount": 40, "totalTokenCount": 1240,
	})

	whole := decode(t, ok(t, url+"/v1beta/models/gemini-2.5-pro:generateContent", geminiCLI()))
	equal(t, "in one piece", at(whole, "candidates", 0, "content", "parts"),
		append([]any{obj{"text": longText}}, calls...))

	text, _, _ = parts(t, ok(t, url+geminiStream, geminiCLI(
		obj{"role": "model", "parts": append([]any{obj{"text": longText}}, calls...)},
		obj{"role": "user", "parts": []obj{{"functionResponse": obj{"name": "write_file"}}, {"functionResponse": obj{"name": "run_shell_command"}}}},
	)))
	equal(t, "last turn", text, "Done.")
}

func TestRouter(t *testing.T) {
	s, url := serve(t, aScript)
	got := decode(t, ok(t, url+"/v1beta/models/gemini-flash-lite:generateContent", obj{
		"contents":          []obj{{"role": "user", "parts": []obj{{"text": "do it"}}}},
		"systemInstruction": obj{"parts": []obj{{"text": "You are a specialized Task Routing AI."}}},
		"generationConfig": obj{"responseMimeType": "application/json", "responseJsonSchema": obj{
			"type": "OBJECT",
			"properties": obj{
				"complexity_reasoning": obj{"type": "STRING"}, "complexity_score": obj{"type": "INTEGER"},
			},
		}},
	}))
	verdict := decode(t, []byte(at(got, "candidates", 0, "content", "parts", 0, "text").(string)))
	equal(t, "verdict", verdict, obj{"complexity_reasoning": "scripted", "complexity_score": 10})
	equal(t, "outcome", s.Requests()[0].Outcome, Aside)
}

// TestSummary checks Gemini CLI's request for a summary of the last session, which it sends
// at the next start and which quotes the conversation.
func TestSummary(t *testing.T) {
	s, url := serve(t, aScript)
	ok(t, url+"/v1beta/models/gemini-flash-lite:generateContent", obj{"contents": []obj{{"role": "user", "parts": []obj{{
		"text": "Summarize the user's primary intent or goal in this conversation in ONE sentence (max 80 characters).\nUser: do it",
	}}}}})
	equal(t, "outcome", s.Requests()[0].Outcome, Aside)
}

func TestGeminiErrors(t *testing.T) {
	s, url := serve(t, "turns: [{text: hi}]")
	resp, body := post(t, url+"/v1beta/models/m:embedContent", "{}")
	equal(t, "status", resp.StatusCode, 404)
	equal(t, "status", at(decode(t, body), "error", "status"), "NOT_FOUND")
	resp, body = post(t, url+"/v1beta/models/m:streamGenerateContent", geminiCLI())
	equal(t, "not as SSE", resp.StatusCode, 400)
	equal(t, "status", at(decode(t, body), "error", "status"), "INVALID_ARGUMENT")
	equal(t, "counted", decode(t, ok(t, url+"/v1beta/models/m:countTokens", strings.Repeat(" ", 40))), obj{"totalTokens": 10})

	s.RequireKey = "AIza-real"
	resp, body = post(t, url+geminiStream, geminiCLI(), "x-goog-api-key", "dummy")
	equal(t, "status", resp.StatusCode, 401)
	equal(t, "status", at(decode(t, body), "error", "status"), "UNAUTHENTICATED")
	ok(t, url+geminiStream, geminiCLI(), "x-goog-api-key", "AIza-real")
}
