package modelserver

import (
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Told returns the readable part of a request for logs. It leaves out headers, query and body, which
// contain credentials and a project's files, and is bounded.
func (r Request) Told() spec.ModelRequest {
	path, _, _ := strings.Cut(r.Path, "?")
	out := spec.ModelRequest{
		N: r.N, Method: clip(r.Method, maxShort), Host: clip(r.Host, maxShort), Path: clip(path, maxShort), Bytes: len(r.Body),
		API: r.API, Model: clip(r.Model, maxShort), Session: clip(r.Session, maxShort), Stream: r.Stream, Prompt: clip(r.Prompt, maxTold),
		Attempt: r.Attempt, Outcome: string(r.Outcome), Status: r.Status, Error: clip(r.Error, maxTold),
	}
	if r.Turn >= 0 {
		out.Conversation, out.Turn = &r.Conversation, &r.Turn
	}
	return out
}

// Bounds of a record's texts, in bytes.
const (
	maxShort = 256
	maxTold  = 2 << 10
)

// clip bounds a text.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
