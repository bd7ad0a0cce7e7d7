package meter

import (
	"errors"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/spec"
)

// TestQuestionPaths checks that questions to models are recognised by their APIs' paths, under any
// prefix of the server.
func TestQuestionPaths(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1/messages": true, "/anthropic/v1/messages/": true, "/V1/Messages": true, "/v1/responses?x": true, "/openai/chat/completions": true,
		"/v1/completions": true, "/v1beta/models/m:streamGenerateContent": true, "/api/chat": true, "/api/generate//": true,
		"/v1/messages/count_tokens": false, "/api/tags": false, "/api/show": false, "/-/npm/v1/security/audits": false, "/": false, "/chat": false,
	} {
		if got := IsQuestion(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// TestCountableAtOwn checks a server of the user's own, which has no accounts: unknown paths are
// refused.
func TestCountableAtOwn(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1/messages": true, "/api/chat": true, "/api/show": true, "/v1/messages/count_tokens": true,
		"/api/embed": false, "/api/pull": false, "/oauth/token": false, "/v1/embeddings": false, "/invoke": false, "/v1/%6dessages": false,
	} {
		q := Request{Method: "POST", Path: path, Own: true}
		if err := q.Countable(); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if q := (Request{Method: "POST", Path: "/api/oauth/hello"}); q.Countable() != nil {
		t.Error("at its maker's, an account is refused")
	}
}

// TestNoPrice checks that with a budget in USD a model without a price is not asked: not once.
func TestNoPrice(t *testing.T) {
	list := price.List{{Model: "dear", Input: 1, Output: 1}}
	for name, c := range map[string]struct {
		path, body string
		pieces     int
		passes     bool
	}{
		"a model with a price":    {"/v1/messages", `{"model":"dear","messages":[]}`, 1, true},
		"one without":             {"/v1/messages", `{"model":"own","messages":[]}`, 1, false},
		"in pieces":               {"/v1/messages", `{"messages":[],"model":"own"}`, 5, false},
		"in the path":             {"/v1beta/models/own:generateContent", "", 1, false},
		"in the path, priced":     {"/v1beta/models/dear:generateContent", "", 1, true},
		"none at all, as dearest": {"/v1/messages", `{}`, 1, true},
	} {
		for _, bounded := range []bool{false, true} {
			b := spec.Budget{}
			if bounded {
				b.USD = 1
			}
			m := New(spec.Bill{}, list, b, func() {})
			tally, err := m.Open(Question{Path: c.path})
			for n := 0; err == nil && n < len(c.body); n += max(1, len(c.body)/c.pieces) {
				err = tally.Asked([]byte(c.body[n:min(len(c.body), n+max(1, len(c.body)/c.pieces))]))
			}
			if passes := c.passes || !bounded; (err == nil) != passes || err != nil && (!errors.Is(err, spec.ErrDenied) || !strings.Contains(err.Error(), "own has no price")) {
				t.Errorf("%s, bounded %v: %v", name, bounded, err)
			}
		}
	}
}

// TestLikely checks that a request that only looks like a question counts only if it names a model,
// or if its answer reports use.
func TestLikely(t *testing.T) {
	for name, c := range map[string]struct {
		ask, answer string
		answers     int64
	}{
		"a message to people":       {`{"text":"hi"}`, `{"id":1}`, 0},
		"a model is named":          {`{"model":"m"}`, `{"id":1}`, 1},
		"the answer says its usage": {`{}`, `{"usage":{"input_tokens":5,"output_tokens":5}}`, 1},
	} {
		m := newMeter(spec.Budget{})
		tally, err := m.Open(Question{Path: "/v1/messages", Likely: true})
		if err == nil {
			err = tally.Asked([]byte(c.ask))
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = tally.Write([]byte(c.answer))
		tally.End(int64(len(c.ask)), int64(len(c.answer)), false)
		if n := m.Bill().Total().Answers; n != c.answers {
			t.Errorf("%s: %d answers", name, n)
		}
	}
}
