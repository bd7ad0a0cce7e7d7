package gateway

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// TestTurns checks that a question to a model is reported when all of it has left the inside,
// before an answer: over HTTP/1 and 2, to a real server and to a played one. Requests without a
// body, to other hosts, and refused ones do not count.
func TestTurns(t *testing.T) {
	for name, mocked := range map[string]bool{"real": false, "played": true} {
		t.Run(name, func(t *testing.T) {
			var turns, before atomic.Int32
			o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				before.Store(turns.Load())
				_, _ = io.WriteString(w, "answer")
			})
			p := document(t, 1, "inspect: all\nallow: ['*.example.com', 127.0.0.0/8, {host: models.example.org, methods: [GET]}]\n")
			w := start(t, p, map[string][]string{"api.example.com": here, "other.example.com": here, "models.example.org": here}, o.trusting, func(c *Config) {
				c.Models, c.Turn = []string{"api.example.com", "models.example.org"}, func() { turns.Add(1) }
				if mocked {
					playing(&stub{})(c)
					c.Models = nil
				}
			})
			at := func(host string) string { return "https://" + host + ":" + strconv.Itoa(int(o.port)) + "/v1/messages" }
			for _, h2 := range []bool{false, true} {
				c := w.client(t, h2)
				was := turns.Load()
				for _, body := range []io.Reader{strings.NewReader("question"), io.MultiReader(strings.NewReader(strings.Repeat("long ", 1<<18)))} {
					if status, text, _ := fetch(t, c, "POST", at("api.example.com"), body); status != 200 {
						t.Fatalf("%d %s", status, text)
					}
				}
				if n := turns.Load() - was; n != 2 || !mocked && before.Load() != was+2 {
					t.Errorf("HTTP/2 %v: %d turns, %d of them before the answer", h2, n, before.Load()-was)
				}
				fetch(t, c, "GET", at("api.example.com"), nil)
				if !mocked {
					fetch(t, c, "POST", at("other.example.com"), strings.NewReader("no question"))
					if status, _, _ := fetch(t, c, "POST", at("models.example.org"), strings.NewReader("refused")); status != policyRefuses {
						t.Errorf("the policy lets it pass: %d", status)
					}
				}
				if n := turns.Load() - was; n != 2 {
					t.Errorf("HTTP/2 %v: %d turns after what is none", h2, n)
				}
			}
		})
	}
}

// policyRefuses is the status of a request that a rule does not allow.
const policyRefuses = http.StatusForbidden
