package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/bothy-dev/bothy/spec"
)

// ParseJSON reads one value.
func ParseJSON(data []byte) (*Node, error) {
	if len(data) > maxDocument {
		return nil, spec.Errorf(spec.ErrUsage, "it is larger than %d bytes", maxDocument)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	n, err := jsonValue(d, 0)
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "it is not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, spec.Errorf(spec.ErrUsage, "something follows the JSON value")
	}
	return n, nil
}

func jsonValue(d *json.Decoder, depth int) (*Node, error) {
	if depth > maxDepth {
		return nil, errors.New("nested too deeply")
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := t.(type) {
	case string:
		return &Node{Kind: Text, Text: v}, nil
	case json.Number:
		return &Node{Kind: Number, Text: v.String()}, nil
	case bool:
		if v {
			return &Node{Kind: Bool, Text: "true"}, nil
		}
		return &Node{Kind: Bool, Text: "false"}, nil
	case json.Delim:
		return jsonItems(d, v, depth)
	}
	return &Node{}, nil
}

// jsonItems reads a list or a map to its end. It accepts duplicate keys; the reader refuses
// them.
func jsonItems(d *json.Decoder, open json.Delim, depth int) (*Node, error) {
	n := &Node{Kind: List}
	if open == '{' {
		n.Kind = Map
	}
	for d.More() {
		if n.Kind == Map {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			n.Keys = append(n.Keys, key.(string)) // the decoder guarantees this
		}
		item, err := jsonValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		n.Items = append(n.Items, item)
	}
	_, err := d.Token()
	return n, err
}
