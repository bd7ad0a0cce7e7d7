package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/bothy-dev/bothy/spec"
)

// MarshalJSON writes the block with the keys of a policy file, for one process
// to tell another. The zero block is {}.
func (b Block) MarshalJSON() ([]byte, error) { return json.Marshal(b.document()) }

// UnmarshalJSON reads the output of MarshalJSON, as strictly as a file is read.
func (b *Block) UnmarshalJSON(data []byte) error {
	n, err := parseJSON(data)
	if err != nil {
		return err
	}
	var read Block
	if len(n.keys) > 0 || n.kind != nodeMap { // the zero block is {}
		if read, err = n.block("the policy", blockKeys); err != nil {
			return err
		}
	}
	*b = read
	return nil
}

// parseJSON reads one value.
func parseJSON(data []byte) (*node, error) {
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

func jsonValue(d *json.Decoder, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errors.New("nested too deeply")
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := t.(type) {
	case string:
		return &node{kind: nodeString, text: v}, nil
	case json.Number:
		return &node{kind: nodeNumber, text: v.String()}, nil
	case bool:
		if v {
			return &node{kind: nodeBool, text: "true"}, nil
		}
		return &node{kind: nodeBool, text: "false"}, nil
	case json.Delim:
		return jsonItems(d, v, depth)
	}
	return &node{}, nil
}

// jsonItems reads a list or a map to its end. It accepts duplicate keys; the reader refuses
// them.
func jsonItems(d *json.Decoder, open json.Delim, depth int) (*node, error) {
	n := &node{kind: nodeList}
	if open == '{' {
		n.kind = nodeMap
	}
	for d.More() {
		if n.kind == nodeMap {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			n.keys = append(n.keys, key.(string)) // the decoder has seen to it
		}
		item, err := jsonValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	_, err := d.Token()
	return n, err
}
