package flowplan

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/gate"
)

// This file writes a list back with its finished elements marked, for people and programs that continue
// with that document. The list follows from the events, and is never read.

// MarkPassed marks the elements with these IDs as passing in a document that was read as a list.
// It keeps all the rest byte for byte.
func MarkPassed(document []byte, ids []string) ([]byte, error) {
	var out bytes.Buffer
	kept := 0 // the number of copied bytes
	err := eachElement(document, func(start, end int) error {
		v, err := gate.ReadJSON(document[start:end])
		o, ok := v.(map[string]any)
		if err != nil || !ok || !slices.Contains(ids, wordsOf(o["id"])) {
			return err
		}
		element, err := passObject(document[start:end])
		out.Write(document[kept:start])
		out.Write(element)
		kept = end
		return err
	})
	out.Write(document[kept:])
	return out.Bytes(), err
}

// eachElement finds the first and the last byte of each element of the list in a document.
func eachElement(document []byte, found func(start, end int) error) error {
	d := json.NewDecoder(bytes.NewReader(document))
	first, err := d.Token()
	if err != nil {
		return err
	}
	for first == json.Delim('{') && d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if name, ok := key.(string); ok && slices.Contains(listKeys, name) {
			if first, err = d.Token(); err != nil {
				return err
			}
			break
		}
		if _, _, err := valueIn(d); err != nil {
			return err
		}
	}
	for first == json.Delim('[') && d.More() {
		start, end, err := valueIn(d)
		if err == nil {
			err = found(start, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// valueIn reads the next value, and returns its first and last byte.
func valueIn(d *json.Decoder) (start, end int, err error) {
	var raw json.RawMessage
	err = d.Decode(&raw)
	end = int(d.InputOffset())
	return end - len(raw), end, err
}

// passObject marks an object as passing.
func passObject(object []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	gap, last := "", 0 // the bytes before a name, and the end of the last value
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		if last == 0 {
			gap = string(object[1:bytes.IndexByte(object, '"')])
		}
		start, end, err := valueIn(d)
		if err != nil {
			return nil, err
		}
		if name == "passes" {
			return slices.Concat(object[:start], []byte("true"), object[end:]), nil
		}
		last = end
	}
	field := `,` + gap + `"passes": true`
	if !strings.ContainsAny(gap, " \t\r\n") {
		field = `, "passes": true`
	}
	return slices.Concat(object[:last], []byte(field), object[last:]), nil
}
