package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ReadJSON reads a document: nil, bool, float64, string, []any and map[string]any. It refuses what
// a later reader might understand differently: duplicate keys, numbers that are too large, and
// invalid UTF-8.
func ReadJSON(document []byte) (any, error) {
	if !utf8.Valid(document) {
		return nil, errors.New("it is not UTF-8")
	}
	if bytes.HasPrefix(document, []byte("\uFEFF")) {
		return nil, errors.New("it begins with a byte order mark, which JSON does not have: save it without one")
	}
	d := &parser{Decoder: json.NewDecoder(bytes.NewReader(document))}
	d.UseNumber()
	v, err := d.readValue(0)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it ends too early")
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows its end")
	}
	return v, nil
}

// parser reads one document, and counts its values: a small one may be large in memory.
type parser struct {
	*json.Decoder
	values int
}

// readValue reads the next value.
func (d *parser) readValue(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is deeper than %d", maxDepth)
	}
	if d.values++; d.values > maxValues {
		return nil, fmt.Errorf("it has more than %d values", maxValues)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return number(t)
	case json.Delim:
		if t == '[' {
			return d.readList(depth)
		}
		return d.readObject(depth)
	}
	return t, nil
}

// number converts a number as other readers do. It refuses a number that none of them could hold.
func number(n json.Number) (any, error) {
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s is too large", cutText(n.String()))
	}
	return f, nil
}

func (d *parser) readList(depth int) (any, error) {
	out := []any{}
	for d.More() {
		v, err := d.readValue(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.Token()
	return out, err
}

func (d *parser) readObject(depth int) (any, error) {
	out := map[string]any{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, errors.New("a key is not a text")
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("the key %q occurs in it twice", cutText(key))
		}
		if out[key], err = d.readValue(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return out, err
}

// valueAt returns the value at a path.
func valueAt(v any, path string) (any, bool) {
	for part := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[part]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			n, err := strconv.Atoi(part)
			if err != nil || n < 0 || n >= len(in) {
				return nil, false
			}
			v = in[n]
		default:
			return nil, false
		}
	}
	return v, true
}

// plainText formats a value of a JSON document for a message.
func plainText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
