package modelserver

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/modelscript"
)

// serve starts a server for a script in YAML.
func serve(t *testing.T, script string) (*Server, string) {
	t.Helper()
	parsed, err := modelscript.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(parsed)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	t.Cleanup(s.Close) // first, because h would wait for hanging answers
	return s, h.URL
}

// head is an answer without its body.
type head struct {
	StatusCode int
	Header     http.Header
}

// post sends a request with headers in pairs, and reads the answer.
func post(t *testing.T, url string, body any, headers ...string) (head, []byte) {
	t.Helper()
	data, ok := body.(string)
	if !ok {
		data = string(encode(body))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return head{resp.StatusCode, resp.Header}, got
}

// ok is post for a request that must succeed.
func ok(t *testing.T, url string, body any, headers ...string) []byte {
	t.Helper()
	resp, got := post(t, url, body, headers...)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d\n%s", url, resp.StatusCode, got)
	}
	return got
}

// sse is an event as it was sent.
type sse struct {
	name string
	data string
}

func (e sse) decode(t *testing.T) map[string]any {
	t.Helper()
	return decode(t, []byte(e.data))
}

func decode(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return out
}

// events splits a stream into events.
func events(t *testing.T, stream []byte) []sse {
	t.Helper()
	var out []sse
	var e sse
	sc := bufio.NewScanner(strings.NewReader(string(stream)))
	for sc.Scan() {
		key, value, _ := strings.Cut(sc.Text(), ": ")
		switch key {
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			out, e = append(out, e), sse{}
		default:
			t.Fatalf("a line of no event: %q", sc.Text())
		}
	}
	if e != (sse{}) {
		t.Fatalf("the stream ends within an event: %v", e)
	}
	return out
}

// at walks into decoded JSON: keys and indices.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := string(encode(got)), string(encode(want)); g != w {
		t.Errorf("%s: %s, not %s", what, g, w)
	}
}

const longText = "I write the file first: ümläut ✓, <&> and more than one piece of it."

// aScript writes, runs and finishes.
const aScript = `
turns:
  - text: "` + longText + `"
    tools:
      - write_file: {path: a b.txt, content: "one\n'two' ✓\n"}
      - run_command: {command: "cat 'a b.txt'"}
    usage: {input: 1200, cached: 200, output: 40}
  - text: Done.
    usage: {input: 1300, output: 5}
`
