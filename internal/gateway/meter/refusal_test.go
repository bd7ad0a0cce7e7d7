package meter

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// TestRefusedLate checks an answer that has begun, and then reports that it does not go on.
func TestRefusedLate(t *testing.T) {
	begun := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"model\":\"m\",\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n"
	for name, c := range map[string]struct {
		text          string
		limited, over bool
		in            time.Duration
	}{
		"anthropic, overloaded": {text: begun + "event: error\ndata: {\"type\":\"error\",\"error\":{\"details\":null,\"type\":\"overloaded_error\",\"message\":\"Overloaded\"},\"request_id\":\"r\"}\n\n", over: true},
		"anthropic, at once":    {text: "event: error\ndata: {\"error\":{\"type\":\"overloaded_error\"},\"type\":\"error\"}\n\n", over: true},
		"anthropic, limited":    {text: begun + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"x\"}}\n\n", limited: true},
		"anthropic, other":      {text: begun + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"overloaded_error\"}}\n\n"},
		"responses, limited": {
			text:    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"error\":null}}\n\nevent: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"x\"}}}\n\n",
			limited: true,
		},
		"responses, overloaded": {text: "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_is_overloaded\"}}}\n\n", over: true},
		"responses, later":      {text: "data: {\"type\":\"response.output_item.done\",\"response\":{\"type\":\"error\",\"error\":{\"code\":\"slow_down\"}}}\n\n"},
		"responses, other":      {text: "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\"}}}\n\n"},
		"responses, an error":   {text: "event: error\ndata: {\"type\":\"error\",\"code\":\"slow_down\",\"message\":\"x\"}\n\n", over: true},
		"responses, until": {
			text: "data: {\"type\":\"error\",\"error\":{\"type\":\"usage_limit_reached\",\"resets_in_seconds\":3600}}\n\n", limited: true, in: time.Hour,
		},
		"responses, until never": {
			text: "data: {\"type\":\"error\",\"error\":{\"type\":\"usage_limit_reached\",\"resets_in_seconds\":360000000000}}\n\n", limited: true,
		},
		"chat":   {text: "data: {\"choices\":[{\"delta\":{}}]}\n\ndata: {\"error\":{\"code\":429,\"message\":\"x\"}}\n\n", limited: true},
		"gemini": {text: "data: {\"error\":{\"code\":503,\"status\":\"UNAVAILABLE\"}}\n\n", over: true},
		"what a model says": {
			text: begun + "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"error\":{\"type\":\"overloaded_error\"},\"delta\":{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"},\"text\":\"{\\\"type\\\":\\\"error\\\",\\\"error\\\":{\\\"type\\\":\\\"overloaded_error\\\"}}\"}}\n\n",
		},
	} {
		for _, piece := range []int{1, len(c.text)} {
			m := newMeter(spec.Budget{})
			tally, err := m.Open(Question{})
			if err != nil {
				t.Fatal(err)
			}
			before := time.Now().Add(-time.Second)
			tally.Stream()
			tally.Answered("h")
			for text := c.text; text != ""; text = text[min(piece, len(text)):] {
				_, _ = tally.Write([]byte(text[:min(piece, len(text))]))
			}
			tally.End(100, int64(len(c.text)), false)
			b := m.Bill()
			if (b.Limited != nil) != c.limited || (b.Overloaded != nil) != c.over {
				t.Errorf("%s in pieces of %d: %+v, %+v", name, piece, b.Limited, b.Overloaded)
			}
			for _, l := range []*spec.Limited{b.Limited, b.Overloaded} {
				if l == nil {
					continue
				}
				if l.Host != "h" || l.Over || l.At.Before(before) || (c.in == 0) != l.Until.IsZero() || c.in != 0 && !l.Until.Equal(l.At.Add(c.in)) {
					t.Errorf("%s: %+v", name, l)
				}
			}
			tally, _ = m.Open(Question{})
			tally.Answered("h")
			if b := m.Bill(); b.Limited != nil && !b.Limited.Over || b.Overloaded != nil && !b.Overloaded.Over {
				t.Errorf("%s: it has answered since, and %+v, %+v", name, b.Limited, b.Overloaded)
			}
		}
	}
}
