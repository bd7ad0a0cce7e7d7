package modelserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"time"
)

// Request is one request and its outcome. It is recorded before the first byte of the
// answer, credentials included.
type Request struct {
	N      int         `json:"n"` // from 1, in the order of the decisions
	Time   time.Time   `json:"time"`
	Method string      `json:"method"`
	Host   string      `json:"host"`
	Path   string      `json:"path"` // with the query
	Header http.Header `json:"header"`
	Body   []byte      `json:"-"`

	API     string `json:"api"`               // anthropic, openai or gemini
	Model   string `json:"model,omitempty"`   // as requested
	Session string `json:"session,omitempty"` // the client's name for it
	Stream  bool   `json:"stream,omitempty"`
	Prompt  string `json:"prompt,omitempty"` // the last one

	// Conversation and Turn are indices into the script, with the default conversation
	// after all others. Both are -1 if the request did not use the script.
	Conversation int `json:"conversation"`
	Turn         int `json:"turn"`
	// Attempt is how often this session has asked for this turn, including this request. It
	// is zero outside of the script.
	Attempt int     `json:"attempt,omitempty"`
	Outcome Outcome `json:"outcome"`
	Status  int     `json:"status,omitempty"` // missing if no byte was sent
	Error   string  `json:"error,omitempty"`  // the reason of a refusal
}

// Outcome is the result of a request.
type Outcome string

// Outcomes.
const (
	Answered Outcome = "answered" // by the script
	Failed   Outcome = "failed"   // because the script says so
	Aside    Outcome = "aside"    // a side call, or not a question to a model
	Refused  Outcome = "refused"  // by the server: Error has the reason
)

// MarshalJSON writes the body unchanged if it is JSON, and in base64 otherwise.
func (r Request) MarshalJSON() ([]byte, error) {
	type plain Request
	out := struct {
		plain
		Body json.RawMessage `json:"body,omitempty"`
		Raw  []byte          `json:"body_base64,omitempty"`
	}{plain: plain(r)}
	if json.Valid(r.Body) {
		out.Body = r.Body
	} else {
		out.Raw = r.Body
	}
	return json.Marshal(out)
}

// record numbers a request, and hands it to Record. Without Record, it keeps the request,
// wakes the callers of Wait, and writes it to Log.
func (s *Server) record(q Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	q.N = s.last
	if s.Record != nil {
		s.Record(q)
		return
	}
	q.Body = slices.Clone(q.Body) // the next large body reuses the buffer
	s.requests = append(s.requests, q)
	close(s.recorded)
	s.recorded = make(chan struct{})
	if s.Log != nil {
		s.logged(q)
	}
}

// logged writes a line. An error does not fail the client: Err returns it.
func (s *Server) logged(q Request) {
	var line bytes.Buffer
	err := json.NewEncoder(&line).Encode(q)
	if err == nil {
		_, err = io.Copy(s.Log, &line)
	}
	if s.logErr == nil {
		s.logErr = err
	}
}

// Err returns the first error of writing to Log.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logErr
}

// Requests returns the requests recorded so far, in order. Headers and bodies are shared:
// do not change them.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Wait blocks until this many requests have been recorded, and returns all.
func (s *Server) Wait(ctx context.Context, n int) ([]Request, error) {
	for {
		s.mu.Lock()
		all, next := slices.Clone(s.requests), s.recorded
		s.mu.Unlock()
		if len(all) >= n {
			return all, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return all, context.Cause(ctx)
		}
	}
}
