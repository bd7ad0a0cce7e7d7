package gateway

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestDistrustIsTold checks a client that gets the sandbox's certificate and does not trust it: it
// sends an alert, or hangs up in the middle of the handshake. The record has the command that lets
// it by unseen, or says why none exists; the inside learns the same. A client that only fails has
// no such command.
func TestDistrustIsTold(t *testing.T) {
	w := start(t, document(t, 1, `
inspect: all
allow:
  - {host: api.example.com, methods: [GET]}
  - {host: bounded.example.com, max_upload: 5MiB}
  - judged.example.com
  - lent.example.com
deny:
  - {host: judged.example.com, methods: [DELETE]}
`), map[string][]string{"api.example.com": nil, "bounded.example.com": nil, "judged.example.com": nil, "lent.example.com": nil})
	lent := loan()
	lent[0].Hosts = []string{"lent.example.com"}
	must(t, w.SetLoans(lent))

	leave := errors.New("it leaves")
	says := func(*tls.Config, net.Conn) {} // by an alert: it does not know the authority
	cuts := func(c *tls.Config, raw net.Conn) {
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(tls.ConnectionState) error { raw.Close(); return leave }
	}
	blind := func(c *tls.Config, _ net.Conn) { c.InsecureSkipVerify = true }
	old := func(c *tls.Config, _ net.Conn) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }
	port := uint16(1000)
	shake := func(name string, how func(*tls.Config, net.Conn)) spec.NetworkRecord {
		t.Helper()
		port++
		raw, err := w.in.DialName(t.Context(), name, port)
		must(t, err)
		conf := &tls.Config{ServerName: name}
		how(conf, raw)
		_ = tls.Client(raw, conf).HandshakeContext(t.Context())
		_ = raw.Close()
		return w.record(t, name, func(r spec.NetworkRecord) bool { return isFlow(r) && r.Port == port })
	}
	command := func(name, more string) string {
		return fmt.Sprintf("bothy policy allow %s:%d --passthrough%s --sandbox box", name, port, more)
	}
	plain := func(c *tls.Config, raw net.Conn) { // as OpenSSL does
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(tls.ConnectionState) error {
			_, _ = raw.Write([]byte{21, 3, 3, 0, 2, 2, 48})
			raw.Close()
			return leave
		}
	}
	for _, how := range []func(*tls.Config, net.Conn){says, plain, cuts} {
		r := shake("api.example.com", how)
		if r.Verdict != spec.VerdictError || !strings.Contains(r.Reason, "does not seem to trust") || !strings.Contains(r.Reason, "unseen, whatever it asks for") || r.Suggest != command(r.Name, "") {
			t.Errorf("it says %+v", r)
		}
	}
	_, text, _ := fetch(t, w.client(t, false), "GET", "http://policy.bothy/", nil, "Accept", "application/json")
	var inside struct {
		Refused []struct{ Name, Command string }
	}
	if err := json.Unmarshal([]byte(text), &inside); err != nil || len(inside.Refused) == 0 || inside.Refused[0].Command != command("api.example.com", "") {
		t.Errorf("inside is told %s, %v", text, err)
	}
	if r := shake("bounded.example.com", says); r.Suggest != command(r.Name, " --max-upload 5MiB") || strings.Contains(r.Reason, "whatever it asks for") {
		t.Errorf("where a rule bounds what is sent: %+v", r)
	}
	if r := shake("judged.example.com", says); r.Suggest != "" || !strings.Contains(r.Reason, "a rule that denies some requests") {
		t.Errorf("where nothing may pass unseen: %+v", r)
	}
	if r := shake("lent.example.com", says); r.Suggest != "" || !strings.Contains(r.Reason, "a secret is lent") {
		t.Errorf("where a secret is lent: %+v", r)
	}
	w.judge.capture = &Capture{How: spec.AgentLogin{Endpoint: fmt.Sprintf("https://api.example.com:%d/token", port+1), Capture: &spec.AgentCapture{}}}
	if r := shake("api.example.com", says); r.Suggest != "" || !strings.Contains(r.Reason, "logins made there are kept") {
		t.Errorf("where logins are kept: %+v", r)
	}
	if r := shake("api.example.com", old); r.Suggest != "" || r.Verdict != spec.VerdictError || !strings.Contains(r.Reason, "TLS with the client failed") {
		t.Errorf("of a client that is too old: %+v", r)
	}
	if r := shake("api.example.com", blind); r.Suggest != "" || r.Verdict != spec.VerdictAllow {
		t.Errorf("of a client that leaves when TLS stands: %+v", r)
	}
}
