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
		N: r.N, Method: clipText(r.Method, maxShort), Host: clipText(r.Host, maxShort), Path: clipText(path, maxShort), Bytes: len(r.Body),
		API: r.API, Model: clipText(r.Model, maxShort), Session: clipText(r.Session, maxShort), Stream: r.Stream, Prompt: clipText(r.Prompt, maxTold),
		Attempt: r.Attempt, Outcome: string(r.Outcome), Status: r.Status, Error: clipText(r.Error, maxTold),
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

// clipText bounds a text.
func clipText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
