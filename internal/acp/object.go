package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object in the order of its text.
type object struct {
	names  []string
	values map[string]json.RawMessage
}

// maxMembers bounds the members of an object that is taken apart: each costs much more memory than its text.
const maxMembers = 1000

// parseObject reads an object in which each name occurs once. Readers disagree about the others. The values
// share the bytes of text.
func parseObject(text []byte) (o object, err error) {
	if !json.Valid(text) { // the walk below relies on it
		var any json.RawMessage
		if err := json.Unmarshal(text, &any); err != nil {
			return o, err
		}
		return o, errNotObject
	}
	o.values = map[string]json.RawMessage{}
	i := skipSpace(text, 0)
	if text[i] != '{' {
		return o, errNotObject
	}
	for i = skipSpace(text, i+1); text[i] != '}'; {
		end := skipValue(text, i)
		var name string
		if err := json.Unmarshal(text[i:end], &name); err != nil {
			return o, err
		}
		if _, twice := o.values[name]; twice {
			return o, errors.New("it has a name twice: " + strconv.Quote(shortened(name)))
		}
		if len(o.names) == maxMembers {
			return o, fmt.Errorf("it has more than %d members", maxMembers)
		}
		i = skipSpace(text, skipSpace(text, end)+1) // after the colon
		end = skipValue(text, i)
		o.names = append(o.names, name)
		o.values[name] = text[i:end:end]
		if i = skipSpace(text, end); text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
	return o, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// skipSpace returns the place of the next byte that is not white space.
func skipSpace(text []byte, i int) int {
	for isSpace(text[i]) {
		i++
	}
	return i
}

// skipText returns the place after a string, of which i is the first quote.
func skipText(text []byte, i int) int {
	for i++; ; i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
}

// skipValue returns the place after the value at i. The text is valid JSON.
func skipValue(text []byte, i int) int {
	depth := 0
	for {
		switch c := text[i]; {
		case c == '"':
			if i = skipText(text, i); depth == 0 {
				return i
			}
			continue
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case depth == 0: // a number or a word
			for i < len(text) && !isSpace(text[i]) && text[i] != ',' && text[i] != '}' && text[i] != ']' {
				i++
			}
			return i
		}
		i++
	}
}

// appendCompact appends valid JSON without white space between its parts.
func appendCompact(to, text []byte) []byte {
	from := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			i = skipText(text, i)
		case isSpace(c):
			to = append(to, text[from:i]...)
			i++
			from = i
		default:
			i++
		}
	}
	return append(to, text[from:]...)
}

// member returns a member, or nil if it is missing.
func (o *object) member(name string) json.RawMessage { return o.values[name] }

// textOf returns a member that is a text, or "".
func (o *object) textOf(name string) (s string) {
	if raw := o.member(name); raw != nil {
		_ = json.Unmarshal(raw, &s)
	}
	return s
}

// setMember replaces or adds a member.
func (o *object) setMember(name string, value json.RawMessage) {
	if _, has := o.values[name]; !has {
		o.names = append(o.names, name)
	}
	if o.values == nil {
		o.values = map[string]json.RawMessage{}
	}
	o.values[name] = value
}

// remove takes a member out.
func (o *object) remove(name string) { o.removeEach(func(has string) bool { return has == name }) }

// removeEach takes out the members of some names.
func (o *object) removeEach(are func(name string) bool) {
	o.names = slices.DeleteFunc(o.names, are)
	maps.DeleteFunc(o.values, func(name string, _ json.RawMessage) bool { return are(name) })
}

// removeLookalikes takes out the members that readers which ignore case would take for one of the names. Go's
// own reader does so.
func (o *object) removeLookalikes(names ...string) {
	o.removeEach(func(has string) bool {
		return !slices.Contains(names, has) && slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(has, name) })
	})
}

// encode returns the object's text.
func (o *object) encode() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, name := range o.names {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(quoteText(name))
		b.WriteByte(':')
		b.Write(o.values[name])
	}
	b.WriteByte('}')
	return b.Bytes()
}

// quoteText returns a text as JSON.
func quoteText(text string) json.RawMessage {
	b, _ := json.Marshal(text) // a text always has a form
	return b
}
