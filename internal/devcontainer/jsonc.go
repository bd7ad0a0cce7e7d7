package devcontainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/tailscale/hujson"

	"github.com/bothy-dev/bothy/spec"
)

// member is a member of an object. Their order counts: commands run in it.
type member struct {
	name string
	raw  json.RawMessage
}

// parse reads JSON with comments and trailing commas, and replaces each string that is not a key.
func parse(text []byte, replace func(string) string) (json.RawMessage, error) {
	if len(text) > MaxSize { // the parser recurses for each bracket
		return nil, fmt.Errorf("it is larger than %d KiB", MaxSize>>10)
	}
	v, err := hujson.Parse(text)
	if err != nil {
		return nil, errors.New(shorten(strings.TrimPrefix(err.Error(), "hujson: "))) // it may quote the text
	}
	v.Minimize()
	if err := replaceIn(&v, replace); err != nil {
		return nil, err
	}
	packed := v.Pack()
	if !json.Valid(packed) {
		return nil, errors.New("it is too deep")
	}
	return packed, nil
}

// replaceIn refuses keys that are not one line: they are shown, and must not look like our own lines.
func replaceIn(v *hujson.Value, replace func(string) string) error {
	switch x := v.Value.(type) {
	case *hujson.Object:
		for i := range x.Members {
			name, _ := x.Members[i].Name.Value.(hujson.Literal)
			if err := oneLine(name.String()); err != nil {
				return err
			}
			if err := replaceIn(&x.Members[i].Value, replace); err != nil {
				return err
			}
		}
	case *hujson.Array:
		for i := range x.Elements {
			if err := replaceIn(&x.Elements[i], replace); err != nil {
				return err
			}
		}
	case hujson.Literal:
		if x.Kind() == '"' {
			v.Value = hujson.String(replace(x.String()))
		}
	}
	return nil
}

// oneLine refuses text with control characters or line ends.
func oneLine(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }) {
		return spec.Errorf(spec.ErrUsage, "%.100q has a control character in it", s)
	}
	return nil
}

func members(raw json.RawMessage) ([]member, error) {
	v, err := hujson.Parse(raw)
	if err != nil {
		return nil, err
	}
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, errWants("an object")
	}
	var list []member
	at := map[string]int{}
	for _, m := range o.Members {
		name, _ := m.Name.Value.(hujson.Literal)
		n := name.String()
		if i, again := at[n]; again { // the last one counts, as with other readers
			list[i].raw = m.Value.Pack()
			continue
		}
		at[n] = len(list)
		list = append(list, member{n, m.Value.Pack()})
	}
	return list, nil
}

// eachMember calls do with each member of an object. Its errors name the member.
func eachMember(raw json.RawMessage, do func(name string, raw json.RawMessage) error) error {
	list, err := members(raw)
	if err != nil {
		return err
	}
	for _, m := range list {
		if err := do(m.name, m.raw); err != nil {
			return &spec.Error{Op: m.name, Err: err, Hint: spec.Hint(err)}
		}
	}
	return nil
}

// errWants returns the error for a value of another type.
func errWants(what string) error { return spec.Errorf(spec.ErrUsage, "it is not %s", what) }

func kindOf(raw json.RawMessage) byte {
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

func readText(raw json.RawMessage) (s string, err error) {
	if kindOf(raw) != '"' {
		return "", errWants("a text")
	}
	err = json.Unmarshal(raw, &s)
	if err == nil && strings.ContainsRune(s, 0) {
		err = spec.Errorf(spec.ErrUsage, "it has a zero byte")
	}
	return s, err
}

// readLine reads a name to be shown.
func readLine(raw json.RawMessage) (string, error) {
	s, err := readText(raw)
	if err == nil {
		err = oneLine(s)
	}
	return s, err
}

func elements(raw json.RawMessage) (list []json.RawMessage, err error) {
	if kindOf(raw) != '[' {
		return nil, errWants("a list")
	}
	return list, json.Unmarshal(raw, &list)
}

func readTexts(raw json.RawMessage) ([]string, error) {
	list, err := elements(raw)
	if err != nil {
		return nil, errWants("a list of texts")
	}
	words := make([]string, len(list))
	for i, e := range list {
		if words[i], err = readText(e); err != nil {
			return nil, errWants("a list of texts")
		}
	}
	return words, nil
}

// asksAnything reports whether a value requests anything.
func asksAnything(raw json.RawMessage) bool {
	switch string(raw) {
	case "null", "false", "[]", "{}", `""`:
		return false
	}
	return true
}
