package modelserver

import (
	"net/http"
	"strings"
)

// action is the purpose of an endpoint.
type action int

const (
	unknown  action = iota
	converse        // ask the model
	tokens          // count without asking
	list            // list the models
	upgrade         // to a WebSocket
	probe           // a check whether the server is up
)

// findRoute finds the endpoint. An unknown one is assigned to the API it resembles, so that the
// client can read the error.
func findRoute(r *http.Request) (api, action) {
	path := r.URL.Path
	if _, does := geminiAction(path); does != "" && r.Method == http.MethodPost {
		return geminiRoute(does)
	}
	switch { // other providers have these below a path of their own
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/v1/chat/completions"):
		return chat{}, converse
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/v1/models"):
		return guessAPI(r), list
	}
	switch r.Method + " " + path {
	case "POST /v1/messages":
		return anthropic{}, converse
	case "POST /v1/messages/count_tokens":
		return anthropic{}, tokens
	case "POST /v1/responses", "POST /backend-api/codex/responses":
		return responses{}, converse
	case "GET /v1/responses", "GET /backend-api/codex/responses":
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			return responses{}, upgrade
		}
	case "HEAD /": // Claude Code, before its first question
		return anthropic{}, probe
	case "GET /v1beta/models":
		return guessAPI(r), list
	case "GET /backend-api/codex/models":
		return responses{}, list
	}
	return guessAPI(r), unknown
}

func geminiRoute(does string) (api, action) {
	switch does {
	case "generateContent", "streamGenerateContent":
		return gemini{}, converse
	case "countTokens":
		return gemini{}, tokens
	}
	return gemini{}, unknown
}

// guessAPI guesses the API from headers and paths that only its clients use.
func guessAPI(r *http.Request) api {
	switch {
	case r.Header.Get("X-Goog-Api-Key") != "", strings.HasPrefix(r.URL.Path, "/v1beta/"):
		return gemini{}
	case r.Header.Get("X-Api-Key") != "", r.Header.Get("Anthropic-Version") != "":
		return anthropic{}
	}
	return chat{}
}

// modelName is the model in the list. All others are served as well.
const modelName = "scripted"

// models returns the list of models.
func models(p api) obj {
	switch p.(type) {
	case anthropic:
		m := obj{"type": "model", "id": modelName, "display_name": modelName, "created_at": "2026-01-01T00:00:00Z"}
		return obj{"data": []obj{m}, "has_more": false, "first_id": modelName, "last_id": modelName}
	case gemini:
		m := obj{"name": "models/" + modelName, "displayName": modelName, "supportedGenerationMethods": []string{"generateContent", "countTokens"}}
		return obj{"models": []obj{m}}
	case responses: // Codex's, with its instructions: its built-in ones suffice
		return obj{"models": []obj{}}
	}
	return obj{"object": "list", "data": []obj{{"id": modelName, "object": "model", "created": 0, "owned_by": "script"}}}
}

// estimate returns a number of tokens: a quarter of the bytes.
func estimate(p api, body []byte) obj {
	if p == (gemini{}) {
		return obj{"totalTokens": len(body) / 4}
	}
	return obj{"input_tokens": len(body) / 4}
}
