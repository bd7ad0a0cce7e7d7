package gateway

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// foreign is the first message of clients of other protocols.
var foreign = map[string]string{
	"PostgreSQL": "\x00\x00\x00\x08\x04\xd2\x16\x2f", "SOCKS": "\x05\x02\x00\x02", "Redis": "*1\r\n$4\r\nPING\r\n", "SSH": "SSH-2.0-x\r\n",
	"AMQP": "AMQP\x00\x00\x09\x01", "MQTT": "\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00", "LDAP": "0\x0c\x02\x01\x01", "JSON": `{"id":1}`,
	"SMTP": "EHLO there\r\n", "FTP": "USER anonymous\r\n", "memcached": "get key\r\n",
}

// TestNotHTTPIsRefused checks a host where every request is judged: a connection that is not HTTP
// is cut off as soon as that shows, in TLS, too. The log has a refusal with the command that would
// let it pass.
func TestNotHTTPIsRefused(t *testing.T) {
	w := start(t, document(t, 1, "allow: [{host: api.example.com, methods: [GET]}]\n"), apiHosts)
	port := uint16(1000)
	for what, said := range foreign {
		for _, secure := range []bool{false, true} {
			port++
			raw, err := w.in.DialName(t.Context(), "api.example.com", port)
			must(t, err)
			var c net.Conn = raw
			if secure {
				c = tls.Client(raw, w.trusts("api.example.com"))
			}
			_, err = io.WriteString(c, said)
			must(t, err)
			_ = c.SetReadDeadline(time.Now().Add(patience))
			if b, err := io.ReadAll(c); !isReset(err) {
				t.Errorf("%s, TLS %t: there comes %q, %v", what, secure, b, err)
			}
			must(t, raw.Close())
			w.refusesForeign(t, port, "does not speak HTTP; a rule with passthrough")
		}
	}
}

// TestOtherProtocolOfTLSIsRefused checks that a client that offers protocols other than HTTP in TLS
// is refused likewise.
func TestOtherProtocolOfTLSIsRefused(t *testing.T) {
	w := start(t, document(t, 1, "allow: [{host: api.example.com, methods: [GET]}]\n"), apiHosts)
	for port, offer := range map[uint16][]string{1001: {"foo"}, 1002: {"postgresql"}, 1003: {"imap", "http/0.9"}} {
		raw, err := w.in.DialName(t.Context(), "api.example.com", port)
		must(t, err)
		conf := w.trusts("api.example.com")
		conf.NextProtos = offer
		if err := tls.Client(raw, conf).HandshakeContext(t.Context()); err == nil {
			t.Errorf("%q: there is a handshake", offer)
		}
		must(t, raw.Close())
		w.refusesForeign(t, port, fmt.Sprintf("does not speak HTTP: by TLS it offers %q", strings.Join(offer, ", ")))
	}
}

// TestForeignBesideGit checks that no advice suggests passthrough where a rule allows only git.
func TestForeignBesideGit(t *testing.T) {
	w := start(t, document(t, 1, "allow: [{host: api.example.com:22, git: [acme/app]}]\n"), apiHosts)
	c, err := w.in.DialName(t.Context(), "api.example.com", 22)
	must(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "\x00")
	must(t, err)
	r := w.record(t, "the refusal", isFlow)
	if r.Verdict != spec.VerdictDeny || r.Suggest != "" || !strings.Contains(r.Reason, "a rule holds what passes there to repositories of git") {
		t.Errorf("it says %+v", r)
	}
}

// trusts is trust for a name.
func (w *world) trusts(name string) *tls.Config {
	conf := w.trust()
	conf.ServerName = name
	return conf
}

// refusesForeign looks for the record of a connection that did not speak HTTP.
func (w *world) refusesForeign(t *testing.T, port uint16, why string) {
	t.Helper()
	r := w.record(t, why, func(r spec.NetworkRecord) bool { return isFlow(r) && r.Port == port })
	command := fmt.Sprintf("bothy policy allow api.example.com:%d --passthrough --sandbox box", port)
	if r.Verdict != spec.VerdictDeny || !strings.Contains(r.Reason, why) || r.Suggest != command || r.State != "" {
		t.Errorf("it says %+v", r)
	}
}
