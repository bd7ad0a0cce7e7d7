package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// lookUp finds a value in a JSON document by a path of keys and indices, separated by dots:
// "sandboxes.0.name". The path "." is the whole document. KEY=VALUE in it selects the first element of
// an array with that value: "status.limits.limit=memory.enforced".
func lookUp(doc, path string) (any, error) {
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON document")
	}
	if path == "." {
		return v, nil
	}
	for step := range strings.SplitSeq(path, ".") {
		next, err := lookIn(v, step)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		v = next
	}
	return v, nil
}

func lookIn(v any, step string) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		if found, ok := v[step]; ok {
			return found, nil
		}
		return nil, fmt.Errorf("no key %q", step)
	case []any:
		if key, want, ok := strings.Cut(step, "="); ok {
			for _, e := range v {
				if got, err := lookIn(e, key); err == nil && text(got) == want {
					return e, nil
				}
			}
			return nil, fmt.Errorf("no element with %s", step)
		}
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) {
			return v[i], nil
		}
		return nil, fmt.Errorf("no index %q in an array of %d", step, len(v))
	}
	return nil, fmt.Errorf("%q asked of a %T", step, v)
}

// text returns a value as scripts write it.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// checkJSON compares a value with a condition: none (it exists), "= TEXT", "~ REGEXP", "len N".
func checkJSON(doc string, args []string) error {
	v, err := lookUp(doc, args[0])
	if err != nil || len(args) == 1 {
		return err
	}
	if len(args) != 3 {
		return errors.New("usage: json PATH [= TEXT | ~ REGEXP | len N]")
	}
	got, want := text(v), args[2]
	ok := false
	switch args[1] {
	case "=":
		ok = got == want
	case "~":
		ok, err = regexp.MatchString(want, got)
	case "len":
		n := -1
		switch v := v.(type) {
		case []any:
			n = len(v)
		case map[string]any:
			n = len(v)
		}
		got, ok = strconv.Itoa(n), strconv.Itoa(n) == want
	}
	if err == nil && !ok {
		err = fmt.Errorf("%s is %s, want %s %s", args[0], got, args[1], want)
	}
	return err
}

func TestCheckJSON(t *testing.T) {
	const doc = `{"a": [{"k": "x", "n": 1}, {"k": "y", "n": 2.5}], "b": true, "e": null}`
	for _, c := range []struct {
		args string
		ok   bool
	}{
		{"a.0.k", true},
		{"a.0.k = x", true},
		{"a.k=y.n = 2.5", true},
		{"a len 2", true},
		{"b = true", true},
		{"e = null", true},
		{". len 3", true},
		{"a.1.k ~ ^[xy]$", true},
		{"a.2", false},
		{"a.k=z", false},
		{"c", false},
		{"a.0.k = y", false},
		{"a len 1", false},
		{"a.0.k ~ ^y", false},
	} {
		if err := checkJSON(doc, strings.Fields(c.args)); (err == nil) != c.ok {
			t.Errorf("json %s: %v", c.args, err)
		}
	}
	if checkJSON(doc+doc, []string{"a"}) == nil || checkJSON("x", []string{"."}) == nil {
		t.Error("what is not one JSON document was accepted")
	}
}
