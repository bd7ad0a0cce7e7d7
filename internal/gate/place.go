package gate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// place is the path to a value in a document; nil is the document itself. Its words are only
// joined for a message: a key may be as long as the document, and the place of every value below
// it contains the key.
type place struct {
	in    *place
	key   string // of an object
	index int    // of a list; -1 in an object
}

func (p *place) fieldPlace(key string) *place { return &place{p, key, -1} }

func (p *place) itemPlace(index int) *place { return &place{p, "", index} }

// String returns the beginning of the path.
func (p *place) String() string {
	if p == nil {
		return "the document"
	}
	var way []*place
	for at := p; at != nil; at = at.in {
		way = append(way, at)
	}
	var b strings.Builder
	for _, at := range slices.Backward(way) {
		part := strconv.Itoa(at.index)
		if at.index < 0 {
			part = escape(beginning(at.key))
		}
		b.WriteString("/" + part)
		if b.Len() > maxBytesTold { // cut has enough
			break
		}
	}
	return cutText(b.String())
}

// flaw says why a value is wrong. Most flaws are never shown, for example those of one schema of anyOf,
// so the message is only made on demand.
type flaw struct {
	place  *place
	format string
	args   []any
}

func (f *flaw) Error() string {
	return fmt.Sprintf("%s "+f.format, append([]any{f.place}, f.args...)...)
}

func flawOf(p *place, format string, args ...any) error { return &flaw{p, format, args} }

// told is a value of a schema in a message.
type told struct{ value any }

func (t told) String() string {
	if text, ok := t.value.(string); ok {
		return cutText(text)
	}
	return cutText(plainText(t.value))
}
