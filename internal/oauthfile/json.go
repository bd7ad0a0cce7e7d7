package oauthfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// decodeObject reads one JSON object and nothing after it. Numbers keep their written form.
func decodeObject(data []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var all map[string]any
	if err := dec.Decode(&all); err != nil || all == nil {
		return nil, errors.New("it is not a JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has data after its JSON object")
	}
	return all, nil
}

// encode writes an object as programs do: with or without indentation, and without unnecessary escapes.
func encode(all any, indent bool) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	err := enc.Encode(all)
	return out.Bytes(), err
}

// CheckPointer checks a JSON pointer to a member of an object.
func CheckPointer(pointer string) error {
	if !strings.HasPrefix(pointer, "/") || len(pointer) < 2 {
		return spec.Errorf(spec.ErrUsage, "%q is not a JSON pointer, such as /tokens/access_token", pointer)
	}
	return nil
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// pointerNames returns the names on the way to a member.
func pointerNames(pointer string) []string {
	names := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range names {
		names[i] = unescape.Replace(names[i])
	}
	return names
}

func valueAt(all map[string]any, pointer string) any {
	var v any = all
	for _, name := range pointerNames(pointer) {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// setValue sets a member, and makes the objects on the way to it. It replaces values on the way
// that are not objects.
func setValue(all map[string]any, pointer string, v any) {
	names := pointerNames(pointer)
	for _, name := range names[:len(names)-1] {
		m, ok := all[name].(map[string]any)
		if !ok {
			m = map[string]any{}
			all[name] = m
		}
		all = m
	}
	all[names[len(names)-1]] = v
}

// milliseconds reads a time as JavaScript writes it; zero for other values.
func milliseconds(v any) time.Time {
	n, ok := v.(json.Number)
	if !ok {
		return time.Time{}
	}
	f, err := n.Float64()
	if err != nil || f <= 0 || f > 1e15 {
		return time.Time{}
	}
	return time.UnixMilli(int64(f))
}
