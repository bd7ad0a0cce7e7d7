package gateway

import (
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/spec"
)

// TestBudgetEndsSockets checks that a new budget ends a WebSocket to a model that was opened before
// it: any number of questions fit on one. A WebSocket to another server goes on.
func TestBudgetEndsSockets(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, rw) // until it ends
	})
	m := meter.New(spec.Bill{}, price.List{}, spec.Budget{}, func() {})
	hosts := map[string][]string{"api.example.com": here, "other.example.com": here}
	w := start(t, document(t, 1, "inspect: all\nallow: ['*.example.com', 127.0.0.0/8]\n"), hosts, o.trusting, func(c *Config) {
		c.Models, c.Meter = []string{"api.example.com"}, m
	})
	open := func(host string) io.ReadWriteCloser {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host+":"+strconv.Itoa(int(o.port))+"/v1/responses", nil)
		must(t, err)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		resp, err := w.client(t, false).Do(r)
		must(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		c, ok := resp.Body.(io.ReadWriteCloser)
		if !ok {
			t.Fatalf("%s: %d", host, resp.StatusCode)
		}
		return c
	}
	echo := func(c io.ReadWriter) error {
		if _, err := io.WriteString(c, "x"); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	model, other := open("api.example.com"), open("other.example.com")
	must(t, echo(model))
	must(t, echo(other))
	w.SetBudget(spec.Budget{Tokens: 1})
	eventually(t, "the end of the WebSocket to the model", func() bool { return echo(model) != nil })
	must(t, echo(other))
}
