package gateway

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/spec"
)

const modelAnswer = `{"model":"m","usage":{"input_tokens":100,"output_tokens":10}}`

// talkative is a model that answers as the path of the request asks.
func talkative(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch {
	case r.Header.Get("Upgrade") != "":
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		packed := strings.Join(r.Header.Values("Sec-Websocket-Extensions"), "") // the gateway could not read it
		event := `{"type":"response.completed","response":` + modelAnswer + `}` + packed
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81"+string(rune(len(event)))+event)
	case strings.HasPrefix(r.URL.Path, "/packed"): // whatever it was told
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, modelAnswer)
		_ = z.Close()
	case r.Header.Get("Accept-Encoding") != "identity":
		w.WriteHeader(http.StatusTeapot)
	case strings.HasPrefix(r.URL.Path, "/busy"):
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, modelAnswer)
	case strings.HasPrefix(r.URL.Path, "/overloaded"):
		w.WriteHeader(529)
	case strings.HasPrefix(r.URL.Path, "/broken"):
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"message":{"model":"m","usage":{"input_tokens":100,"output_tokens":1}}}`+"\n\n"+strings.Repeat(" ", 4000))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	default:
		_, _ = io.WriteString(w, modelAnswer)
	}
}

// TestMeter checks that answers of models are counted, over HTTP/1 and 2, whichever server answers,
// also where no rule asks for inspection. When the budget is used up, no server is asked any more.
func TestMeter(t *testing.T) {
	o := newOrigin(t, true, talkative)
	hosts := map[string][]string{"api.example.com": here, "other.example.com": here}
	meters := func(b spec.Budget) *meter.Meter {
		return meter.New(spec.Bill{}, price.List{{Model: "m", Input: 1e4, Output: 1e5}}, b, func() {})
	}
	for name, rules := range map[string]string{"inspected": "inspect: all\n", "for the budget": ""} {
		t.Run(name, func(t *testing.T) {
			m := meters(spec.Budget{USD: 1e3})
			w := start(t, document(t, 1, rules+"allow: ['*.example.com', 127.0.0.0/8]\n"), hosts, o.trusting, func(c *Config) {
				c.Models, c.Meter = []string{"api.example.com"}, m
			})
			at := func(host, path string) string { return "https://" + host + ":" + strconv.Itoa(int(o.port)) + path }
			asked := int64(0)
			ask := func(h2 bool, path string, status int) {
				t.Helper()
				got, text, _ := fetch(t, w.client(t, h2), "POST", at("api.example.com", path), strings.NewReader(strings.Repeat("x", 400)))
				if got != status {
					t.Fatalf("%s: %d %s", path, got, text)
				}
			}
			for _, h2 := range []bool{false, true} {
				ask(h2, "/v1/messages", 200)
				ask(h2, "/v1/messages/count_tokens", http.StatusTeapot) // it asks no model, and may be compressed
				ask(h2, "/busy/v1/messages", 429)
				ask(h2, "/overloaded/v1/messages", 529)
				if b := m.Bill(); b.Limited == nil || b.Limited.Over || b.Overloaded == nil || b.Overloaded.Over {
					t.Errorf("%+v, %+v", b.Limited, b.Overloaded)
				}
				if name == "inspected" {
					fetch(t, w.client(t, h2), "POST", at("other.example.com", "/v1/messages"), strings.NewReader("x"))
					asked++ // any server that reports its use counts
				}
				asked++
			}
			// The last byte of an answer may arrive before it is counted, but not its report of use.
			if i := m.Bill().Total(); i.Answers != asked || i.Tokens != (spec.Tokens{Input: 100 * asked, Output: 10 * asked}) || i.USD != 2*float64(asked) || i.Guessed != 0 {
				t.Errorf("%+v", i)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at("api.example.com", "/v1/responses"), nil)
			must(t, err)
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", "websocket")
			resp, err := w.client(t, false).Do(r)
			must(t, err)
			if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusUpgradeRequired || !strings.Contains(string(text), "are not counted") {
				t.Errorf("over a WebSocket: %d %s", resp.StatusCode, text)
			}
			_ = resp.Body.Close()
			resp, err = w.client(t, false).Post(at("api.example.com", "/broken/v1/messages"), "", strings.NewReader(strings.Repeat("x", 400)))
			must(t, err)
			if _, err := io.ReadAll(resp.Body); err == nil {
				t.Error("the answer looks complete")
			}
			_ = resp.Body.Close()
			if b := m.Bill(); !b.Limited.Over || !b.Overloaded.Over {
				t.Errorf("it has answered since: %+v, %+v", b.Limited, b.Overloaded)
			}
			was := m.Bill().Overloaded
			if status, text, _ := fetch(t, w.client(t, false), "POST", "https://api.example.com:1/v1/messages", strings.NewReader("x")); status != http.StatusBadGateway || m.Bill().Overloaded != was {
				t.Errorf("a server that is not there: %d %s; %+v", status, text, m.Bill().Overloaded)
			}
			eventually(t, "the guess at what broke off", func() bool { return m.Bill().Total().Guessed == 1 })
			if i := m.Bill().Total(); i.Output < 200 || i.Input != 100*asked+100 {
				t.Errorf("%+v", i)
			}
			if l := m.Bill().Limited; l == nil || l.Host != "api.example.com" || time.Until(l.Until) < 50*time.Minute || time.Until(l.Until) > time.Hour {
				t.Errorf("%+v", l)
			}
			ask(false, "/packed/v1/messages", 200)
			eventually(t, "the guess at what nobody could read", func() bool { return m.Bill().Total().Guessed == 2 })
			w.SetBudget(spec.Budget{USD: .01})
			status, text, _ := fetch(t, w.client(t, false), "POST", at("api.example.com", "/v1/messages"), strings.NewReader("x"))
			if status != http.StatusForbidden || !strings.Contains(text, "used up") {
				t.Errorf("%d %s", status, text)
			}
			w.record(t, "a refusal for the budget", func(r spec.NetworkRecord) bool {
				return r.Event == spec.NetworkRequest && r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, "budget")
			})
			if w.SetBudget(spec.Budget{}); name != "inspected" {
				return
			}
			ask(false, "/v1/messages", 200)
			before := m.Bill()
			r.Header.Set("Sec-Websocket-Extensions", "permessage-deflate")
			resp, err = w.client(t, false).Do(r)
			must(t, err)
			if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusSwitchingProtocols || !strings.Contains(string(text), "response.completed") || strings.Contains(string(text), "deflate") {
				t.Errorf("without a budget, over a WebSocket: %d %q", resp.StatusCode, text)
			}
			_ = resp.Body.Close()
			w.record(t, "the end of the WebSocket", func(r spec.NetworkRecord) bool {
				return r.Event == spec.NetworkRequest && r.Status == http.StatusSwitchingProtocols
			})
			if i := m.Bill().Since(before); i.Answers != 1 || i.Unseen != 0 || i.Tokens != (spec.Tokens{Input: 100, Output: 10}) {
				t.Errorf("over a WebSocket: %+v", i)
			}
		})
	}
}
