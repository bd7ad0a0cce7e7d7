package pull

import (
	"encoding/json"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// maxParts bounds the number of parts of a document that describes images. Each part takes
// much more room in memory than in the text.
const maxParts = 1 << 16

// decode reads a document from an untrusted source. It first checks that the document has
// at most maxParts parts.
func decode(text []byte, v any) error {
	if partsOf(text) > maxParts {
		return spec.Errorf(spec.ErrDenied, "it is of more than %d parts, as nothing is that describes images", maxParts)
	}
	return json.Unmarshal(text, v)
}

// partsOf counts the commas and the opening brackets of a document, without those in strings.
func partsOf(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}

// maxSaid bounds the text of an error, in bytes, because the error may quote a faulty
// document at length.
const maxSaid = 4 << 10

// clipped is an error whose text is cut to maxSaid bytes.
type clipped struct{ error }

func (c clipped) Unwrap() error { return c.error }

func (c clipped) Error() string {
	text := c.error.Error()
	if len(text) <= maxSaid {
		return text
	}
	return strings.ToValidUTF8(text[:maxSaid], "") + " …"
}
