package modelserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/internal/modelscript"
)

// obj is a JSON object. Its keys are written in order, so equal answers are equal bytes.
type obj = map[string]any

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // the values of a script were checked
		panic(fmt.Sprintf("modelserver: encode an answer: %v", err))
	}
	return b
}

// answer is the model's answer, in a form common to all providers.
type answer struct {
	id    string // letters and digits, unique to the session, prompt and turn
	model string // the client's name for it
	text  string
	calls []call
	usage modelscript.Usage
}

// answer translates a turn for the client.
func (d dialogue) answer(t modelscript.Turn) (answer, error) {
	a := answer{model: d.model, text: t.Text, usage: t.Usage}
	for _, t := range t.Tools {
		c, err := tool{t}.translateCall(d.offered)
		if err != nil {
			return answer{}, err
		}
		a.calls = append(a.calls, c)
	}
	return a, nil
}

// identify makes ids that are the same whenever the same turn is answered, and differ otherwise: clients
// merge messages with the same id.
func identify(a *answer, key string) {
	sum := sha256.Sum256([]byte(key))
	a.id = hex.EncodeToString(sum[:8])
	for i := range a.calls {
		a.calls[i].id = fmt.Sprintf("%sc%d", a.id, i)
	}
}

// pieceSize is the number of bytes of text in one event of a stream. It is small, so that a proxy sees
// words split over events as with real models.
const pieceSize = 24

// pieces splits a text at character boundaries.
func pieces(s string) []string {
	var out []string
	for len(s) > pieceSize {
		n := pieceSize
		for n > 1 && !utf8.RuneStart(s[n]) {
			n--
		}
		out, s = append(out, s[:n]), s[n:]
	}
	if s != "" {
		out = append(out, s)
	}
	return out
}

// simplestValue returns the simplest value of a JSON schema: yes, ten, a word.
func simplestValue(schema map[string]any) any {
	if enum, ok := schema["enum"].([]any); ok && len(enum) > 0 {
		return enum[0]
	}
	switch kind, _ := schema["type"].(string); kind {
	case "object", "OBJECT":
		out := obj{}
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			p, _ := p.(map[string]any)
			out[name] = simplestValue(p)
		}
		return out
	case "array", "ARRAY":
		return []any{}
	case "integer", "number", "INTEGER", "NUMBER":
		return 10
	case "boolean", "BOOLEAN":
		return true
	case "null":
		return nil
	}
	return "scripted"
}

// maxAside bounds the answer to a side call, because the client chooses its shape.
const maxAside = 64 << 10

// answerAside returns the answer to a side call.
func (d dialogue) answerAside(kind string) (answer, error) {
	a := answer{model: d.model, text: "Scripted session"}
	if kind == "json" {
		a.text = string(encode(simplestValue(d.schema)))
	}
	if len(a.text) > maxAside {
		return answer{}, fmt.Errorf("the least answer of the schema has %d bytes, and %d are the most", len(a.text), maxAside)
	}
	return a, nil
}
