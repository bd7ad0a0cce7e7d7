package modelserver

import (
	"net/http"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/internal/modelscript"
)

// openai is the common part of OpenAI's two APIs.
type openai struct{}

func (openai) name() string { return "openai" }

func openaiTypes() map[int]string {
	return map[int]string{
		429: "requests", 500: "server_error", 502: "server_error", 503: "service_unavailable_error", 529: "overloaded_error",
	}
}

func openaiCodes() map[int]string {
	return map[int]string{401: "invalid_api_key", 404: "not_found", 429: "rate_limit_exceeded"}
}

func (openai) failure(f trouble) (obj, http.Header) {
	e := obj{
		"message": f.errorText(), "param": nil, "code": nil,
		"type": f.errorType(openaiTypes(), "invalid_request_error", "server_error"),
	}
	if code := openaiCodes()[f.Status]; code != "" {
		e["code"] = code
	}
	if f.Type != "" {
		e["code"] = f.Type
	}
	h := http.Header{}
	switch resets := f.resets(); {
	case f.Limit == nil:
	case f.Limit.Kind == modelscript.LimitSubscription:
		if f.Type == "" {
			e["type"], e["code"] = "usage_limit_reached", nil
		}
		e["plan_type"] = "plus"
		e["resets_at"] = resets.Unix()
		e["resets_in_seconds"] = seconds(f.Limit.Resets)
		h.Set("x-codex-primary-used-percent", "100")
		h.Set("x-codex-primary-window-minutes", "300")
		h.Set("x-codex-primary-reset-at", strconv.FormatInt(resets.Unix(), 10))
	default:
		h.Set("Retry-After", strconv.FormatInt(seconds(f.Limit.Resets), 10))
		h.Set("x-ratelimit-limit-requests", "500")
		h.Set("x-ratelimit-remaining-requests", "0")
		h.Set("x-ratelimit-reset-requests", time.Duration(f.Limit.Resets).String())
	}
	return obj{"error": e}, h
}
