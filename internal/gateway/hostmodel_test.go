package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/price"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func metering(b spec.Budget) *meter.Meter {
	return meter.New(spec.Bill{}, price.List{{Model: "m", Input: 1, Output: 1}}, b, func() {})
}

// TestBudgetHoldsEverywhere checks that with a budget every question to a model is counted: at a
// name under a plain rule, at an address, at a port of the host. Connections that must not be
// inspected are refused. Connections other than HTTP pass.
func TestBudgetHoldsEverywhere(t *testing.T) {
	o := newOrigin(t, false, talkative)
	free, _ := echo(t, "")
	hosts := map[string][]string{"plain.example.com": here, "seen.example.com": here}
	rules := "allow: ['plain.example.com', 127.0.0.0/8, {host: 'seen.example.com', passthrough: true}]\n"
	m := metering(spec.Budget{Tokens: 500})
	w := start(t, document(t, 1, rules), hosts, func(c *Config) {
		c.Meter, c.HostPorts = m, []uint16{o.port, free}
	})
	at := func(host, path string) string { return "http://" + host + ":" + strconv.Itoa(int(o.port)) + path }
	c := w.client(t, false)
	ask := func(url string, status int, says string) {
		t.Helper()
		got, text, _ := fetch(t, c, "POST", url, strings.NewReader(`{"model":"m"}`))
		if got != status || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s", url, got, text)
		}
	}
	for n, host := range []string{"plain.example.com", "host.bothy"} {
		ask(at(host, "/v1/messages"), 200, "")
		if i := m.Bill().Total(); i.Answers != int64(n+1) || i.Counted() != int64(n+1)*110 {
			t.Errorf("%s: %+v", host, i)
		}
	}
	ask(at("plain.example.com", "/v1/%6dessages"), http.StatusForbidden, "several ways")
	if _, err := w.in.DialName(t.Context(), "seen.example.com", o.port); err == nil {
		t.Error("who is not looked into was reached")
	}
	w.record(t, "that it was refused", func(r spec.NetworkRecord) bool {
		return r.Name == "seen.example.com" && r.Verdict == spec.VerdictDeny && strings.Contains(r.Reason, "passthrough")
	})
	conn, err := w.in.DialName(t.Context(), "host.bothy", free)
	must(t, err)
	_, err = io.WriteString(conn, "\x01no HTTP\n")
	must(t, err)
	must(t, conn.CloseWrite())
	if got, err := io.ReadAll(conn); err != nil || string(got) != "\x01no HTTP\n" {
		t.Errorf("what is no HTTP: %q, %v", got, err)
	}
	w.SetBudget(spec.Budget{Tokens: 100})
	for _, host := range []string{"plain.example.com", "host.bothy"} {
		ask(at(host, "/v1/messages"), http.StatusForbidden, "used up: 220 of 100 tokens")
	}
	w.SetBudget(spec.Budget{})
	seen, err := w.in.DialName(t.Context(), "seen.example.com", o.port)
	must(t, err)
	_ = seen.Close()
	ask(at("host.bothy", "/packed"), 200, "") // it is not inspected, and arrives as it is
}

// TestOwnServer checks that the server that a sandbox was made for is counted without a budget,
// too, is called by its name on the host, and is the only one that gets a secret in clear.
func TestOwnServer(t *testing.T) {
	const key = "sk-own-0123456789abcdef"
	tell := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, `{"model":"m","host":%q,"got":%q,"usage":{"input_tokens":100,"output_tokens":10}}`, r.Host, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer sk-own-"))
	}
	own, other := newOrigin(t, false, tell), newOrigin(t, false, tell)
	m := metering(spec.Budget{})
	port := strconv.Itoa(int(own.port))
	w := start(t, rules(t, 1, "deny **"), nil, func(c *Config) {
		c.Meter, c.HostPorts = m, []uint16{own.port, other.port}
		c.Servers, c.Own = []string{"host.bothy:" + port}, &wire.ModelServer{At: "host.bothy:" + port, Named: "localhost"}
	})
	lease := spec.Lease{
		ID: "lease-1", Secret: "own", Hosts: []string{"127.0.0.1:" + port, "127.0.0.1:" + strconv.Itoa(int(other.port))},
		Place: spec.Place{Kind: spec.PlaceBearer}, Placeholder: "sk-placeholder-0123456789",
	}
	must(t, w.SetLoans([]wire.Loan{{Lease: lease, Value: wire.Value(key)}}))
	ask := func(host string, port uint16, status int, says string) {
		t.Helper()
		url := fmt.Sprintf("http://%s:%d/v1/messages", host, port)
		got, text, _ := fetch(t, w.client(t, false), "POST", url, strings.NewReader("{}"), "Authorization", "Bearer "+lease.Placeholder)
		if got != status || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s", url, got, text)
		}
	}
	ask("host.bothy", own.port, 200, `"host":"localhost:`+port+`","got":"0123456789abcdef"`)
	ask("host.docker.internal", own.port, 200, `"got":"0123456789abcdef"`)
	ask("host.bothy", other.port, http.StatusForbidden, "TLS only")
	if i := m.Bill().Total(); i.Answers != 2 || i.Counted() != 220 {
		t.Errorf("%+v", i)
	}
	w.record(t, "the use of the secret", func(r spec.NetworkRecord) bool {
		return r.Event == spec.NetworkSecret && r.Secret == "own" && r.Port == own.port
	})
	w.SetHostPorts([]uint16{other.port})
	if _, err := w.in.DialName(t.Context(), "host.bothy", own.port); err == nil {
		t.Error("a port that was closed is reached")
	}
}
