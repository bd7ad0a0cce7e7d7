package gateway

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Case B8 of the attack list: calls by JSON-RPC in the bodies of requests. The parser's own cases
// are in package rpc.

const callRules = `allow:
  - {host: api.example.com, paths: [/mcp], rpc: [initialize, "notifications/*", tools/list, "tools/call search_*"]}
  - {host: other.example.com, paths: [/mcp], rpc: [tools/list, "tools/call delete_all"]}
  - {host: api.example.com, methods: [POST], paths: [/free]}
`

// callee is a server that remembers the exact bytes it received.
type callee struct {
	*origin
	mu   sync.Mutex
	sent []string // how the body was framed, and the body
}

func newCallee(t testing.TB, secure bool) *callee {
	t.Helper()
	s := &callee{}
	s.origin = newOrigin(t, secure, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		s.mu.Lock()
		s.sent = append(s.sent, fmt.Sprintf("%s %d %q %q %q %v: %s", r.URL.Path, r.ContentLength, r.TransferEncoding, r.Header["Expect"], r.Header["Content-Type"], err, body))
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
	return s
}

// got returns the requests that arrived since the last call.
func (s *callee) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.sent
	s.sent = nil
	return list
}

func (s *callee) url(secure bool, host string) string {
	scheme := map[bool]string{true: "https", false: "http"}[secure]
	return fmt.Sprintf("%s://%s:%d/mcp", scheme, host, s.port)
}

// eachWay runs a test over TLS with both versions of HTTP, and in clear text.
func eachWay(t *testing.T, test func(t *testing.T, s *callee, w *world, c *http.Client, secure, h2 bool)) {
	for _, way := range []struct{ secure, h2 bool }{{true, false}, {true, true}, {false, false}} {
		t.Run(fmt.Sprintf("tls %t, h2 %t", way.secure, way.h2), func(t *testing.T) {
			s := newCallee(t, way.secure)
			w := start(t, document(t, 1, callRules), apiHosts, s.trusting)
			test(t, s, w, w.client(t, way.h2), way.secure, way.h2)
		})
	}
}

func callOf(method, rest string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `"` + rest + `}`
}

func toolOf(name string) string { return callOf("tools/call", `,"params":{"name":"`+name+`"}`) }

// TestB8CallsAreJudged checks that a call passes if a rule names it, and that the server gets the
// very bytes that were judged. Other calls are refused and explained.
func TestB8CallsAreJudged(t *testing.T) {
	eachWay(t, func(t *testing.T, s *callee, w *world, c *http.Client, secure, h2 bool) {
		url := s.url(secure, "api.example.com")
		large := callOf("tools/list", `,"params":{"cursor":"`+strings.Repeat("x", 900<<10)+`"}`)
		for _, body := range []string{
			callOf("tools/list", ""), toolOf("search_docs"), callOf("notifications/tools/list_changed", ""), large,
			" \r\n[ " + callOf("tools/list", "") + " ,\n\t" + toolOf("search_x") + "]\n",
			`{"jsonrpc":"2.0","\u006dethod":"tools\/call","params":{"n\u0061me":"search_\u0061", "arguments":{"a":1.50,"b":"\u00e4\/"}}}`,
		} {
			for how, reader := range map[string]func() io.Reader{
				"with its length": func() io.Reader { return strings.NewReader(body) },
				"in chunks":       func() io.Reader { return io.MultiReader(strings.NewReader(body[:5]), strings.NewReader(body[5:])) },
			} {
				for _, expect := range []string{"", "100-continue"} {
					header := []string{"Content-Type", "application/json; charset=UTF-8"}
					if expect != "" && !h2 {
						header = append(header, "Expect", expect)
					}
					status, text, _ := fetch(t, c, "POST", url, reader(), header...)
					want := fmt.Sprintf("/mcp %d [] [] %q <nil>: %s", len(body), []string{header[1]}, body)
					if got := s.got(); status != 200 || len(got) != 1 || got[0] != want {
						t.Fatalf("%s, %.100s: %d %.300s\nthe server got %.300q\nnot            %.300q", how, body, status, text, got, want)
					}
				}
			}
		}
		r := w.record(t, "an allowed call", func(r spec.NetworkRecord) bool { return r.RPC == "tools/list, tools/call search_x" })
		if r.Verdict != spec.VerdictAllow || r.Method != http.MethodPost || r.Path != "/mcp" || r.Up == 0 || r.Status != 200 {
			t.Errorf("%+v", r)
		}
		for body, calls := range map[string]string{
			toolOf("delete_all"):                                                                   "tools/call delete_all",
			callOf("resources/list", ""):                                                           "resources/list",
			callOf("tools/call2", ""):                                                              "tools/call2",
			toolOf("search_/../../delete_all"):                                                     "tools/call search_/../../delete_all",
			"[" + callOf("tools/list", "") + "," + toolOf("delete_all") + "]":                      "tools/list, tools/call delete_all",
			"[" + toolOf("delete_all") + "," + callOf("tools/list", "") + "]":                      "tools/call delete_all, tools/list",
			`{"jsonrpc":"2.0","\u006dethod":"tools\/call","params":{"n\u0061me":"dele\u0074e"}}`:   "tools/call delete",
			`{"jsonrpc":"2.0","id":1,"result":{"method":"tools/list"}}`:                            "response",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"a":1}}}`: "tools/call x",
		} {
			status, text, _ := fetch(t, c, "POST", url, strings.NewReader(body), "Content-Type", "application/json")
			if got := s.got(); status != 403 || len(got) > 0 || !strings.Contains(text, "rpc "+calls) || !strings.Contains(text, "--rpc") {
				t.Errorf("%s: %d %s\nthe server got %q", body, status, text, got)
			}
			r := w.record(t, "the refusal of "+body, func(r spec.NetworkRecord) bool { return r.RPC == calls })
			if r.Verdict != spec.VerdictDeny || !strings.Contains(r.Reason, calls) || r.Suggest == "" || r.Status != 403 {
				t.Errorf("%+v", r)
			}
		}
		for _, method := range []string{"GET", "DELETE", "PUT"} {
			if status, _, _ := fetch(t, c, method, url, nil); status != 403 || len(s.got()) > 0 {
				t.Errorf("%s: %d", method, status)
			}
		}
		// At other paths nothing is read, and anything passes.
		status, _, _ := fetch(t, c, "POST", strings.Replace(url, "/mcp", "/free", 1), strings.NewReader("any{thing"), "Content-Type", "text/plain")
		if got := s.got(); status != 200 || len(got) != 1 || !strings.HasSuffix(got[0], ": any{thing") {
			t.Errorf("%d, %q", status, got)
		}
	})
}

// TestB8Disguises checks that a body that some server may read as another call reaches no server,
// whatever its head.
func TestB8Disguises(t *testing.T) {
	eachWay(t, func(t *testing.T, s *callee, w *world, c *http.Client, secure, _ bool) {
		url := s.url(secure, "api.example.com")
		good := callOf("tools/list", "")
		const kind = "application/json"
		for what, tt := range map[string]struct {
			body   string
			header []string
		}{
			"method twice":          {`{"jsonrpc":"2.0","method":"tools/list","method":"tools/call","params":{"name":"x"}}`, nil},
			"method twice, escaped": {`{"jsonrpc":"2.0","method":"tools/list","\u006dethod":"tools/call","params":{"name":"x"}}`, nil},
			"method in capitals":    {`{"jsonrpc":"2.0","method":"tools/list","METHOD":"tools/call"}`, nil},
			"name twice":            {`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"search_a","name":"delete_all"}}`, nil},
			"name twice, escaped":   {`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"search_a","n\u0061me":"delete_all"}}`, nil},
			"name in capitals":      {`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"search_a","Name":"delete_all"}}`, nil},
			"a key twice, deep":     {`{"jsonrpc":"2.0","method":"tools/list","params":{"a":{"b":[{"c":1,"\u0063":2}]}}}`, nil},
			"another document":      {good + toolOf("delete_all"), nil},
			"another line":          {good + "\n" + toolOf("delete_all"), nil},
			"a batch in a batch":    {"[[" + good + "]]", nil},
			"an empty batch":        {"[]", nil},
			"a batch with a number": {"[" + good + ",1]", nil},
			"a NUL":                 {`{"jsonrpc":"2.0","method":"tools/list","method\u0000":"tools/call"}`, nil},
			"a byte order mark":     {"\uFEFF" + good, nil},
			"no UTF-8":              {strings.Replace(good, "list", "list\xff", 1), nil},
			"too deep":              {callOf("tools/list", `,"params":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)), nil},
			"too long":              {good + strings.Repeat(" ", 1<<20), nil},
			"nothing":               {"", nil},
			"a form":                {good, []string{"Content-Type", "application/x-www-form-urlencoded"}},
			"no type":               {good, []string{"Content-Type", ""}},
			"two types":             {good, []string{"Content-Type", kind, "Content-Type", "text/plain"}},
			"another alphabet":      {good, []string{"Content-Type", kind + "; charset=utf-16"}},
			"another parameter":     {good, []string{"Content-Type", kind + "; charset=utf-8; x=y"}},
			"UTF-7":                 {good, []string{"Content-Type", kind + "; charset=utf-7"}},
			"compressed":            {good, []string{"Content-Type", kind, "Content-Encoding", "gzip"}},
			"identity":              {good, []string{"Content-Type", kind, "Content-Encoding", "identity"}},
			"another method":        {good, []string{"Content-Type", kind, "X-HTTP-Method-Override", "PUT"}},
			"a field says another":  {good, []string{"Content-Type", kind, "Mcp-Method", "tools/call"}},
			"two fields":            {good, []string{"Content-Type", kind, "Mcp-Method", "tools/list", "Mcp-Method", "tools/call"}},
			"an underscore":         {good, []string{"Content-Type", kind, "Mcp_Method", "tools/call"}},
			"another tool":          {toolOf("search_a"), []string{"Content-Type", kind, "Mcp-Method", "tools/call", "Mcp-Name", "delete_all"}},
			"a field for a batch":   {"[" + good + "," + good + "]", []string{"Content-Type", kind, "Mcp-Method", "tools/list"}},
		} {
			if tt.header == nil {
				tt.header = []string{"Content-Type", kind}
			}
			for how, body := range map[string]io.Reader{"with its length": strings.NewReader(tt.body), "in chunks": io.MultiReader(strings.NewReader(tt.body))} {
				status, text, _ := fetch(t, c, "POST", url, body, tt.header...)
				if got := s.got(); status != 403 && status != 413 || len(got) > 0 || !strings.Contains(text, "bothy") {
					t.Errorf("%s, %s: %d %s\nthe server got %q", what, how, status, text, got)
				}
			}
		}
		for _, query := range []string{"?method=tools/call", "?x=1&Params=a", "?%6dethod=x", "?x=%zz"} {
			if status, text, _ := fetch(t, c, "POST", url+query, strings.NewReader(good), "Content-Type", kind); status != 403 || len(s.got()) > 0 || strings.Contains(text, "--method") {
				t.Errorf("%s: %d %s", query, status, text)
			}
		}
		// MCP's own fields may repeat the call in the body.
		status, text, _ := fetch(t, c, "POST", url+"?sessionId=1", strings.NewReader(toolOf("search_a")), "Content-Type", kind, "Mcp-Method", "tools/call", "Mcp-Name", "search_a")
		if got := s.got(); status != 200 || len(got) != 1 {
			t.Errorf("%d %s\nthe server got %q", status, text, got)
		}
		r := w.record(t, "a disguise", func(r spec.NetworkRecord) bool { return strings.Contains(r.Reason, "stands twice") })
		if r.Verdict != spec.VerdictDeny || r.RPC != "" || r.Suggest != "" || r.Up != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestB8ToolShadowing checks that a tool of the same name at another server is judged by that
// server's rule, also on a connection to the first.
func TestB8ToolShadowing(t *testing.T) {
	eachWay(t, func(t *testing.T, s *callee, _ *world, c *http.Client, secure, _ bool) {
		for host, allowed := range map[string]map[string]bool{
			"api.example.com":   {"search_docs": true, "delete_all": false},
			"other.example.com": {"search_docs": false, "delete_all": true},
		} {
			for name, want := range allowed {
				status, text, _ := fetch(t, c, "POST", s.url(secure, host), strings.NewReader(toolOf(name)), "Content-Type", "application/json")
				if got := s.got(); (status == 200) != want || (len(got) == 1) != want || !want && status != 403 {
					t.Errorf("%s at %s: %d %s\nthe server got %q", name, host, status, text, got)
				}
			}
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url(secure, "api.example.com"), strings.NewReader(toolOf("delete_all")))
		must(t, err)
		r.Host = fmt.Sprintf("other.example.com:%d", s.port)
		r.Header.Set("Content-Type", "application/json")
		resp, err := c.Do(r)
		must(t, err)
		resp.Body.Close()
		if got := s.got(); resp.StatusCode != http.StatusMisdirectedRequest || len(got) > 0 {
			t.Errorf("%d\nthe server got %q", resp.StatusCode, got)
		}
	})
}

// begunCall sends the head of a request and a part of its body over HTTP/1.
func begunCall(t testing.TB, w *world, s *callee, head, body string) net.Conn {
	t.Helper()
	raw, err := w.in.DialName(t.Context(), "api.example.com", s.port)
	must(t, err)
	conf := w.trust()
	conf.ServerName = "api.example.com"
	c := tls.Client(raw, conf)
	t.Cleanup(func() { _ = raw.Close() })
	_, err = fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: api.example.com:%d\r\nContent-Type: application/json\r\n%s\r\n%s", s.port, head, body)
	must(t, err)
	return c
}

// TestB8ExpectIsAnsweredOnce checks that a waiting client is told once to go on, and that the
// following bytes on the connection are in step.
func TestB8ExpectIsAnsweredOnce(t *testing.T) {
	s := newCallee(t, true)
	w := start(t, document(t, 1, callRules), apiHosts, s.trusting)
	body := toolOf("search_a")
	head := fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n", len(body))
	c := begunCall(t, w, s, head, "")
	in := bufio.NewReader(c)
	for n := range 3 {
		must(t, c.SetDeadline(time.Now().Add(patience)))
		line, err := in.ReadString('\n')
		must(t, err)
		empty, err := in.ReadString('\n')
		if must(t, err); line != "HTTP/1.1 100 Continue\r\n" || empty != "\r\n" {
			t.Fatalf("%d: the client is told %q %q", n, line, empty)
		}
		_, err = io.WriteString(c, body)
		must(t, err)
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if must(t, err); resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "result") {
			t.Fatalf("%d: %d %s", n, resp.StatusCode, text)
		}
		_, err = fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: api.example.com:%d\r\nContent-Type: application/json\r\n%s\r\n", s.port, head)
		must(t, err)
	}
	if got := s.got(); len(got) != 3 || slices.ContainsFunc(got, func(x string) bool { return !strings.HasSuffix(x, ": "+body) }) {
		t.Errorf("the server got %q", got)
	}
	// If the head is refused, the client is not asked for the body.
	c = begunCall(t, w, s, head+"Content-Encoding: gzip\r\n", "")
	must(t, c.SetDeadline(time.Now().Add(patience)))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	if resp.Body.Close(); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a refused body: %d", resp.StatusCode)
	}
}

// TestB8RulesChangeMeanwhile checks that a request with an unfinished body is judged by the rules
// at the body's end, and that an allowed request ends with its rule.
func TestB8RulesChangeMeanwhile(t *testing.T) {
	s := newCallee(t, true)
	w := start(t, document(t, 1, callRules), apiHosts, s.trusting)
	body := toolOf("search_a")
	for rules, want := range map[string]int{
		callRules: 200,
		`allow: [{host: api.example.com, rpc: [tools/list]}]`:                      403,
		`allow: [{host: api.example.com, rpc: [tools/call]}]`:                      200,
		`allow: [{host: api.example.com, methods: [POST]}]`:                        200,
		`allow: [{host: api.example.com, methods: [GET]}]`:                         403,
		"allow: [api.example.com]\ndeny: [{host: api.example.com, paths: [/mcp]}]": 403,
	} {
		w.SetPolicy(document(t, 2, callRules))
		c := begunCall(t, w, s, fmt.Sprintf("Content-Length: %d\r\n", len(body)), body[:10])
		time.Sleep(200 * time.Millisecond) // it is being read; if not yet, the outcome is the same
		w.SetPolicy(document(t, 3, rules+"\n"))
		_, err := io.WriteString(c, body[10:])
		must(t, err)
		must(t, c.SetDeadline(time.Now().Add(patience)))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		resp.Body.Close()
		if got := s.got(); resp.StatusCode != want || (len(got) == 1) != (want == 200) {
			t.Errorf("%s: %d, the server got %q", rules, resp.StatusCode, got)
		}
	}
}

// TestB8ManyAtOnce checks that too many bodies at once are refused, none waits for another, and
// afterwards there is room again. Many small ones always have room.
func TestB8ManyAtOnce(t *testing.T) {
	s := newCallee(t, true)
	w := start(t, document(t, 1, callRules), apiHosts, s.trusting)
	clients := []*http.Client{w.client(t, true), w.client(t, false)}
	for _, size := range []int{10, 900 << 10, 10} {
		body := callOf("tools/list", `,"params":{"cursor":"`+strings.Repeat("x", size)+`"}`)
		var wg sync.WaitGroup
		var passed atomic.Int64
		for n := range atOnce {
			wg.Go(func() {
				status, text, _ := fetch(t, clients[n%2], "POST", s.url(true, "api.example.com"), io.MultiReader(strings.NewReader(body)), "Content-Type", "application/json")
				if status == 200 {
					passed.Add(1)
				} else if status != 503 || size < 1<<10 {
					t.Errorf("%d %s", status, text)
				}
			})
		}
		wg.Wait()
		got := s.got()
		if int64(len(got)) != passed.Load() || len(got) == 0 || slices.ContainsFunc(got, func(x string) bool { return !strings.HasSuffix(x, ": "+body) }) {
			t.Errorf("%d bytes: %d passed, %d arrived", size, passed.Load(), len(got))
		}
	}
}

// TestB8SlowBody checks that a body that does not end is given up, in whatever form.
func TestB8SlowBody(t *testing.T) {
	t.Parallel()
	s := newCallee(t, true)
	w := start(t, document(t, 1, callRules), apiHosts, s.trusting)
	c := begunCall(t, w, s, "Transfer-Encoding: chunked\r\n", "1\r\n{\r\n")
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				_, _ = io.WriteString(c, "1\r\n \r\n")
			}
		}
	}()
	must(t, c.SetReadDeadline(time.Now().Add(2*time.Minute)))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	if resp.Body.Close(); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%d", resp.StatusCode)
	}
	end := make(chan struct{}) // else the client does not close the answer
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url(true, "api.example.com"), io.MultiReader(strings.NewReader("{"), silent{end}))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	resp, err = w.client(t, true).Do(r)
	close(end)
	if must(t, err); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("over HTTP/2: %d", resp.StatusCode)
	}
	resp.Body.Close()
	if got := s.got(); len(got) > 0 {
		t.Errorf("the server got %q", got)
	}
}

// silent is a body that sends no more bytes.
type silent struct{ end <-chan struct{} }

func (s silent) Read([]byte) (int, error) {
	<-s.end
	return 0, io.EOF
}
