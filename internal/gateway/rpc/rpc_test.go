package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy/rpccall"
)

// admitted are bodies with the calls in them.
var admitted = map[string][]string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`:                                                                                        {"tools/list"},
	`{"jsonrpc":"2.0","method":"notifications/initialized"}`:                                                                                {"notifications/initialized"},
	`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"search","arguments":{"a":1}}}`:                                       {"tools/call search"},
	`{"params":{"arguments":{"name":"x","Name":2},"name":"a.b-c_d"},"method":"tools/call","jsonrpc":"2.0"}`:                                 {"tools/call a.b-c_d"},
	" \r\n\t{ \"jsonrpc\" : \"2.0\" , \"method\" : \"a\" , \"params\" : [ 1 , -0.5e+3 , null , true , false , { } , [ ] ] } \n":             {"a"},
	`{"jsonrpc":"2.0","\u006dethod":"tools\/c\u0061ll","params":{"n\u0061me":"dele\u0074e"}}`:                                               {"tools/call delete"},
	`{"jsonrpc":"2.0","id":null,"method":"prompts/get","params":{"name":"any thing ä","NAME":1}}`:                                           {"prompts/get"},
	`{"jsonrpc":"2.0","id":7,"result":{"method":"tools/call"}}`:                                                                             {rpccall.Answer},
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}`:                                                                                   {rpccall.Answer},
	`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":null},{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}]`: {"a", rpccall.Answer, "tools/call x"},
	`{"jsonrpc":"2.0","method":"a","params":{"t":"\ud83d\ude00 😀 \u00e4 \"\\\/\b\f\n\r\t"}}`:                                                {"a"},
	`{"jsonrpc":"2.0","method":"a","params":{"a":{"k":1},"b":{"k":1},"A":0,"k":[{"k":1},{"k":1}]}}`:                                         {"a"},
	`{"jsonrpc":"2.0","method":"a","params":` + nested(maxDepth-1) + `}`:                                                                    {"a"},
	`[` + strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","method":"a"},`, rpccall.Max), ",") + `]`:                                     slices.Repeat([]string{"a"}, rpccall.Max),
}

// hostile are bodies that readers take for different calls.
var hostile = map[string]string{
	"nothing":                    ``,
	"blanks":                     "  \n",
	"text":                       `"tools/list"`,
	"a number":                   `1`,
	"null":                       `null`,
	"an empty batch":             `[]`,
	"an empty batch, spread":     "[ \n ]",
	"an empty object":            `{}`,
	"a batch with a number":      `[{"jsonrpc":"2.0","method":"a"},1]`,
	"a batch with null":          `[{"jsonrpc":"2.0","method":"a"},null]`,
	"a batch in a batch":         `[[{"jsonrpc":"2.0","method":"a"}]]`,
	"a batch with a comma":       `[{"jsonrpc":"2.0","method":"a"},]`,
	"a batch that is too long":   `[` + strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","method":"a"},`, rpccall.Max+1), ",") + `]`,
	"method twice":               `{"jsonrpc":"2.0","method":"tools/list","method":"tools/call","params":{"name":"x"}}`,
	"method twice, escaped":      `{"jsonrpc":"2.0","method":"tools/list","\u006dethod":"tools/call","params":{"name":"x"}}`,
	"method in capitals":         `{"jsonrpc":"2.0","method":"tools/list","Method":"tools/call"}`,
	"method in capitals alone":   `{"jsonrpc":"2.0","METHOD":"tools/list"}`,
	"method with a NUL":          `{"jsonrpc":"2.0","method":"tools/list","method\u0000":"tools/call"}`,
	"method with a blank":        `{"jsonrpc":"2.0","method":"tools/list","method ":"tools/call"}`,
	"params twice":               `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"},"params":{"name":"b"}}`,
	"params by another letter":   `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"},"param\u017f":{"name":"b"}}`,
	"id by another letter":       `{"jsonrpc":"2.0","method":"a","\u0131d":1}`,
	"name twice":                 `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a","name":"b"}}`,
	"name twice, escaped":        `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a","n\u0061me":"b"}}`,
	"name in capitals":           `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a","Name":"b"}}`,
	"name in capitals alone":     `{"jsonrpc":"2.0","method":"tools/call","params":{"NAME":"b"}}`,
	"name with a blank":          `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"," name":"b"}}`,
	"name as a list":             `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a","name[]":"b"}}`,
	"name in wide letters":       `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a","ｎａｍｅ":"b"}}`,
	"a key twice, deep":          `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a","arguments":{"q":[{"x":1,"x":2}]}}}`,
	"a key twice, deep, escaped": `{"jsonrpc":"2.0","method":"a","params":{"q":{"\u0078":1,"y":0,"x":2}}}`,
	"an empty key twice":         `{"jsonrpc":"2.0","method":"a","params":{"":1,"":2}}`,
	"a pair of escapes twice":    `{"jsonrpc":"2.0","method":"a","params":{"\ud83d\ude00":1,"😀":2}}`,
	"another member":             `{"jsonrpc":"2.0","method":"a","extra":1}`,
	"no version":                 `{"method":"a"}`,
	"version 1":                  `{"jsonrpc":"1.0","method":"a"}`,
	"a number as version":        `{"jsonrpc":2.0,"method":"a"}`,
	"no method":                  `{"jsonrpc":"2.0","id":1}`,
	"an empty method":            `{"jsonrpc":"2.0","method":""}`,
	"a number as method":         `{"jsonrpc":"2.0","method":1}`,
	"null as method":             `{"jsonrpc":"2.0","method":null}`,
	"a list as method":           `{"jsonrpc":"2.0","method":["a"]}`,
	"a method with a blank":      `{"jsonrpc":"2.0","method":"tools/call x"}`,
	"a method with a line":       `{"jsonrpc":"2.0","method":"a\nb"}`,
	"a method like a pattern":    `{"jsonrpc":"2.0","method":"*"}`,
	"a method like a list":       `{"jsonrpc":"2.0","method":"a,b"}`,
	"a method of other letters":  `{"jsonrpc":"2.0","method":"t\u043eols/list"}`,
	"a method that is an answer": `{"jsonrpc":"2.0","method":"response"}`,
	"a long method":              `{"jsonrpc":"2.0","method":"` + strings.Repeat("a", 129) + `"}`,
	"a call and an answer":       `{"jsonrpc":"2.0","id":1,"method":"a","result":1}`,
	"two answers":                `{"jsonrpc":"2.0","id":1,"result":1,"error":1}`,
	"an answer to nothing":       `{"jsonrpc":"2.0","result":1}`,
	"an answer with params":      `{"jsonrpc":"2.0","id":1,"result":1,"params":{}}`,
	"an object as id":            `{"jsonrpc":"2.0","id":{},"method":"a"}`,
	"true as id":                 `{"jsonrpc":"2.0","id":true,"method":"a"}`,
	"text as params":             `{"jsonrpc":"2.0","method":"a","params":"x"}`,
	"null as params":             `{"jsonrpc":"2.0","method":"a","params":null}`,
	"a tool without params":      `{"jsonrpc":"2.0","method":"tools/call"}`,
	"a tool in a list":           `{"jsonrpc":"2.0","method":"tools/call","params":["x"]}`,
	"a tool without a name":      `{"jsonrpc":"2.0","method":"tools/call","params":{}}`,
	"a tool with an empty name":  `{"jsonrpc":"2.0","method":"tools/call","params":{"name":""}}`,
	"a number as tool":           `{"jsonrpc":"2.0","method":"tools/call","params":{"name":1}}`,
	"a list as tool":             `{"jsonrpc":"2.0","method":"tools/call","params":{"name":["x"]}}`,
	"a tool like a pattern":      `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"*"}}`,
	"a tool with a blank":        `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x "}}`,
	"a tool with a NUL":          `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x\u0000y"}}`,
	"a tool of other letters":    `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"s\u0435arch"}}`,
	"something behind":           `{"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","method":"tools/call"}`,
	"a line behind":              "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"b\"}",
	"a NUL behind":               "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\x00",
	"a batch behind":             `[{"jsonrpc":"2.0","method":"a"}][]`,
	"a byte order mark":          "\uFEFF" + `{"jsonrpc":"2.0","method":"a"}`,
	"UTF-16":                     "\xff\xfe{\x00}\x00",
	"UTF-16 without a mark":      "{\x00}\x00",
	"bytes that are no UTF-8":    "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{\"x\":\"\xff\"}}",
	"an overlong slash":          "{\"jsonrpc\":\"2.0\",\"method\":\"tools\xc0\xafcall\"}",
	"a NUL in a key":             `{"jsonrpc":"2.0","method":"a","params":{"x\u0000":1}}`,
	"a NUL at the end of a text": `{"jsonrpc":"2.0","method":"a","params":["x\u0000"]}`,
	"half a pair":                `{"jsonrpc":"2.0","method":"a","params":{"\ud83d":1,"\ud83e":2}}`,
	"the other half":             `{"jsonrpc":"2.0","method":"a","params":["\ude00"]}`,
	"half a pair and a letter":   `{"jsonrpc":"2.0","method":"a","params":["\ud83d\u0041"]}`,
	"an escape that is none":     `{"jsonrpc":"2.0","method":"\x61"}`,
	"an escape that breaks off":  `{"jsonrpc":"2.0","method":"\u00`,
	"a NUL in a text":            "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":[\"\x00\"]}",
	"a line in a text":           "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":[\"\n\"]}",
	"a line behind an escape":    "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":[\"\\t\n\"]}",
	"single quotes":              `{'jsonrpc':'2.0','method':'a'}`,
	"a key without quotes":       `{jsonrpc:"2.0",method:"a"}`,
	"a comment":                  `{"jsonrpc":"2.0",/*"method":"b",*/"method":"a"}`,
	"a comment of a line":        "{\"jsonrpc\":\"2.0\",\"method\":\"a\"} // x",
	"a comma too much":           `{"jsonrpc":"2.0","method":"a",}`,
	"a comma missing":            `{"jsonrpc":"2.0" "method":"a"}`,
	"a colon missing":            `{"jsonrpc":"2.0","method" "a"}`,
	"a blank of another kind":    "{\"jsonrpc\":\"2.0\",\u00a0\"method\":\"a\"}",
	"a form feed":                "{\"jsonrpc\":\"2.0\",\f\"method\":\"a\"}",
	"NaN":                        `{"jsonrpc":"2.0","method":"a","id":NaN}`,
	"Infinity":                   `{"jsonrpc":"2.0","method":"a","id":-Infinity}`,
	"a plus":                     `{"jsonrpc":"2.0","method":"a","id":+1}`,
	"a zero too much":            `{"jsonrpc":"2.0","method":"a","id":01}`,
	"a dot too early":            `{"jsonrpc":"2.0","method":"a","id":.5}`,
	"a dot too late":             `{"jsonrpc":"2.0","method":"a","id":5.}`,
	"an exponent that is none":   `{"jsonrpc":"2.0","method":"a","id":5e}`,
	"another base":               `{"jsonrpc":"2.0","method":"a","id":0x10}`,
	"a sign alone":               `{"jsonrpc":"2.0","method":"a","id":-}`,
	"True":                       `{"jsonrpc":"2.0","method":"a","params":[True]}`,
	"a word that goes on":        `{"jsonrpc":"2.0","method":"a","params":[nullx]}`,
	"too deep":                   `{"jsonrpc":"2.0","method":"a","params":` + nested(maxDepth) + `}`,
	"too deep by far":            strings.Repeat("[", 1<<20),
	"objects too deep by far":    `{"jsonrpc":"2.0","method":"a","params":` + strings.Repeat(`{"a":`, 1<<17),
	"too many keys":              `{"jsonrpc":"2.0","method":"a","params":{` + manyKeys(maxKeys) + `}}`,
	"an object that breaks off":  `{"jsonrpc":"2.0","method":"a"`,
	"a list that breaks off":     `[{"jsonrpc":"2.0","method":"a"}`,
	"a text that breaks off":     `{"jsonrpc":"2.0","method":"a`,
	"a key that breaks off":      `{"jsonrpc":"2.0","method":"a","`,
	"an escape at the end":       `{"jsonrpc":"2.0","method":"a\`,
}

// nested is a list within a list, so many times.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":0,`, i)
	}
	return b.String() + `"":0`
}

func TestRead(t *testing.T) {
	for body, want := range admitted {
		got, err := Read([]byte(body))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", body[:min(len(body), 200)], got, err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for what, body := range hostile {
		got, err := Read([]byte(body))
		if err == nil {
			t.Errorf("%s: it calls %q", what, got)
			continue
		}
		for _, c := range []byte(err.Error()) {
			if c < ' ' || c > '~' || len(err.Error()) > 200 {
				t.Errorf("%s: the error is %q", what, err)
				break
			}
		}
	}
}

// TestReadCopies checks that the calls are not slices of the body, so that the body is not kept.
func TestReadCopies(t *testing.T) {
	body := []byte(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"search"}}`)
	calls, err := Read(body)
	for i := range body {
		body[i] = 'x'
	}
	if err != nil || !slices.Equal(calls, []string{"tools/call search"}) {
		t.Errorf("%q %v", calls, err)
	}
}

// FuzzRead compares the admitted bodies with other readers of the same bytes: one that ignores case
// and believes the last of two keys, and one that believes the first. Neither may find another
// call.
func FuzzRead(f *testing.F) {
	for body := range admitted {
		f.Add([]byte(body))
	}
	for _, body := range hostile {
		f.Add([]byte(body[:min(len(body), 4096)]))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		calls, err := Read(body)
		if err != nil {
			return
		}
		if !json.Valid(body) || len(calls) == 0 {
			t.Fatalf("%q is admitted with %q", body, calls)
		}
		if last := lenient(t, body); !slices.Equal(calls, last) {
			t.Fatalf("%q: %q, and to who reads the last key %q", body, calls, last)
		}
		if first := believing(t, body); !slices.Equal(calls, first) {
			t.Fatalf("%q: %q, and to who reads the first key %q", body, calls, first)
		}
	})
}

// lenient reads as encoding/json does: keys in any case, the last of two.
func lenient(t *testing.T, body []byte) (calls []string) {
	var list []json.RawMessage
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
	} else {
		list = append(list, body)
	}
	for _, one := range list {
		var m struct{ Method *string }
		var tool struct{ Params struct{ Name string } }
		if err := json.Unmarshal(one, &m); err != nil {
			t.Fatal(err)
		}
		if m.Method != nil && *m.Method == rpccall.ToolCall {
			if err := json.Unmarshal(one, &tool); err != nil {
				t.Fatal(err)
			}
		}
		calls = append(calls, spelled(m.Method, tool.Params.Name))
	}
	return calls
}

func spelled(method *string, tool string) string {
	switch {
	case method == nil:
		return rpccall.Answer
	case *method == rpccall.ToolCall:
		return rpccall.ToolCall + " " + tool
	}
	return *method
}

// believing reads token by token: keys in any case, the first of two.
func believing(t *testing.T, body []byte) (calls []string) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	v := firsts(t, d)
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("something stands behind %q", body)
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, one := range list {
		m := one.(map[string]any)
		tool := ""
		if params, ok := m["params"].(map[string]any); ok {
			tool, _ = params["name"].(string)
		}
		var method *string
		if s, ok := m["method"].(string); ok {
			method = &s
		}
		calls = append(calls, spelled(method, tool))
	}
	return calls
}

func firsts(t *testing.T, d *json.Decoder) any {
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			list = append(list, firsts(t, d))
		}
		_, _ = d.Token()
		return list
	case json.Delim('{'):
		m := map[string]any{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			v := firsts(t, d)
			name := strings.ToLower(key.(string))
			if _, twice := m[name]; !twice {
				m[name] = v
			}
		}
		_, _ = d.Token()
		return m
	}
	return token
}

func BenchmarkRead(b *testing.B) {
	small := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"query":"what is this"}}}`)
	large := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{` + manyKeys(60000) + `}}}`)
	for name, body := range map[string][]byte{"small": small, "large": large} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := Read(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
