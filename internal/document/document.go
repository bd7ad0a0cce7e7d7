// Package document has the documents that the command line prints with --json and that the API answers: one
// type and one function each, so that both say the same bytes.
package document

import (
	"encoding/json"

	"github.com/bothy-dev/bothy/internal/term"
)

// Encode returns a document as both surfaces write it. Strings in it may come from inside, so it also escapes
// characters that JSON allows but a terminal would obey.
func Encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(term.EscapeJSON(b), '\n'), nil
}
