package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
)

// TestRulesChangeWhileJudged checks a change of rules while a request is judged: the new rules
// judge it. The request is not ended for facts that are not noted yet, and the old rules do not let
// it through.
func TestRulesChangeWhileJudged(t *testing.T) {
	f := newFar(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for q, _ := read(t, r); q != nil; q, _ = read(t, r) {
			say(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	compile := func(generation uint64, text string) *policy.Policy {
		doc, err := policyfile.Decode([]byte("version: 1\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		p, err := policy.Compile(generation, policy.Input{Layer: policy.LayerUser, Block: doc.Block})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const calls = "allow: [{host: far.example, rpc: [tools/list]}]\n"
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	post := fmt.Sprintf("POST /x HTTP/1.1\r\n"+host+"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	get := "GET /x HTTP/1.1\r\n" + host + "\r\n"
	for what, tt := range map[string]struct {
		before, after, request string
		status                 int
	}{
		"how much may leave":   {"allow: [{host: far.example, max_upload: 1MiB}]\n", "allow: [{host: far.example, max_upload: 2MiB}]\n", get, 200},
		"it may leave by then": {"allow: [{host: far.example, methods: [GET]}]\n", "allow: [{host: far.example, methods: [GET], max_upload: 2MiB}]\n", get, 200},
		"calls":                {calls, "allow: [{host: far.example, rpc: [tools/list, ping]}]\n", post, 200},
		"calls by then":        {"allow: [{host: far.example, methods: [POST]}]\n", calls, post, 200},
		"it is not allowed":    {"allow: [far.example]\n", "allow: [{host: far.example, paths: [/y]}]\n", get, 403},
		"nor what it calls":    {calls, "allow: [{host: far.example, rpc: [ping]}]\n", post, 403},
	} {
		t.Run(what, func(t *testing.T) {
			now, n := compile(1, tt.before), 0
			track := &Track{}
			var i *Inspector
			decide := func(h upstream.Host, r *policy.Request) policy.Decision {
				return now.Decide(policy.Query{Stage: policy.StageRequest, Name: h.Name, Port: h.Port, Request: r, Now: time.Now()})
			}
			conf := passing(t, "far.example", f.listener.Addr())
			ledger := uploadlimit.New(nil, nil)
			conf.Outflow = func(b *policy.Budget) *uploadlimit.Meter { return ledger.Meter(b.Target, b.Limit) }
			conf.Judge = func(h upstream.Host, r *policy.Request) policy.Decision {
				d := decide(h, r)
				if n++; n == 1 { // as the gateway does when rules change
					now = compile(2, tt.after)
					track.Review(func(r *policy.Request, _ inject.Uses, m *uploadlimit.Meter) error {
						if d := decide(h, r); !d.Allowed() || (d.Budget == nil) != (m == nil) {
							return errors.New("the policy changed")
						}
						return nil
					})
				}
				return d
			}
			i = New(conf)
			c, inside := tcpPair(t)
			served := make(chan struct{})
			go func() {
				defer close(served)
				_ = i.Serve(context.Background(), relay.TCP{TCPConn: inside}, nil, upstream.Host{Name: "far.example", Port: 80}, &relay.Counts{}, track)
			}()
			defer func() { _ = c.Close(); i.Close(); <-served }()
			say(c, tt.request)
			if got, text := answerTo(t, http.MethodGet, bufio.NewReader(c)); got.StatusCode != tt.status || n < 2 {
				t.Errorf("%d %s, judged %d times", got.StatusCode, strings.TrimSpace(text), n)
			}
		})
	}
}
