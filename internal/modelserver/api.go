package modelserver

import (
	"encoding/json"
	"net/http"
	"strings"
)

// api is the request and response format of one provider.
type api interface {
	// name is the API's name in the record.
	name() string
	// readRequest parses a request.
	readRequest(r *http.Request, body []byte) (dialogue, error)
	// stream formats an answer as server-sent events.
	stream(a answer) []event
	// wholeAnswer formats an answer in one piece.
	wholeAnswer(a answer) obj
	// failure fills in the usual values of f, and returns the body and the headers of the response.
	failure(f trouble) (obj, http.Header)
	// failed returns the failure, with the body of failure, as an event that ends a stream.
	failed(body obj) event
}

// event is one server-sent event. Without a name it has only a data line.
type event struct {
	name string
	data any
}

// done ends a stream of chat completions.
type done struct{}

func (e event) encode() []byte {
	var b strings.Builder
	if e.name != "" {
		b.WriteString("event: " + e.name + "\n")
	}
	data := []byte("[DONE]")
	if e.data != (done{}) {
		data = encode(e.data)
	}
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
	return []byte(b.String())
}

// content is a text as APIs send it: a string, or a list of typed blocks.
type content []block

// block has the used fields of a typed block, of any API.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (c *content) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(b, (*[]block)(c))
}

// String joins all its text.
func (c content) String() string {
	var all []string
	for _, b := range c {
		if b.Text != "" {
			all = append(all, b.Text)
		}
	}
	return strings.Join(all, "\n")
}

// firstHeader returns the first header that has a value.
func firstHeader(h http.Header, names ...string) string {
	for _, n := range names {
		if v := h.Get(n); v != "" {
			return v
		}
	}
	return ""
}
