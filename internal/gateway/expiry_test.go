package gateway

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// calendar is a clock that leaps.
type calendar struct{ passed atomic.Int64 }

func (c *calendar) now() time.Time       { return time.Now().Add(time.Duration(c.passed.Load())) }
func (c *calendar) leap(d time.Duration) { c.passed.Add(int64(d)) }

const (
	aDay  = 24 * time.Hour
	aYear = 365 * aDay
)

// TestAuthorityEnds checks a sandbox that runs on while its certificates end. Certificates of servers
// are renewed silently. Once the authority has ended, TLS that would be inspected does not pass, also
// where inspection is only a wish: it is never passed on unseen, and the log names the remedy.
func TestAuthorityEnds(t *testing.T) {
	for name, rules := range map[string]string{
		"where requests are judged":  readOnly,
		"where it is only looked at": "inspect: all\nallow: [api.example.com]\n",
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, true, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
			var clock calendar
			w := start(t, document(t, 1, rules), apiHosts, o.trusting, func(c *Config) { c.now = clock.now })
			url := fmt.Sprintf("https://api.example.com:%d/public/", o.port)
			client := func() *http.Client {
				c := w.client(t, false)
				c.Transport.(*http.Transport).TLSClientConfig.Time = clock.now
				return c
			}
			serial := func(c *http.Client) string {
				t.Helper()
				resp, err := c.Get(url)
				must(t, err)
				defer resp.Body.Close()
				b, err := io.ReadAll(resp.Body)
				must(t, err)
				if resp.StatusCode != http.StatusOK || string(b) != "hello" {
					t.Fatalf("%d %s", resp.StatusCode, b)
				}
				return resp.TLS.PeerCertificates[0].SerialNumber.String()
			}
			first := client()
			before := serial(first)
			clock.leap(30*aDay - time.Hour)
			if serial(client()) == before {
				t.Error("a certificate that ends in an hour was given out")
			}
			clock.leap(aDay) // connections stay open
			if serial(first) != before {
				t.Error("the connection that was open is another one")
			}
			for range 9 {
				clock.leap(aYear)
				serial(client())
			}
			clock.leap(aYear)
			seen := len(o.requests())
			if resp, err := client().Get(url); err == nil {
				resp.Body.Close()
				t.Errorf("after the authority's end: %s", resp.Status)
			}
			blind := client() // looks at no certificate
			blind.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
			if resp, err := blind.Get(url); err == nil {
				resp.Body.Close()
				t.Errorf("to a client that trusts everybody: %s", resp.Status)
			}
			if got := o.requests(); len(got) != seen {
				t.Errorf("the server saw %v", got[seen:])
			}
			r := w.record(t, "the end", func(r spec.NetworkRecord) bool {
				return r.Event == spec.NetworkFlow && strings.Contains(r.Reason, "certificate authority")
			})
			if r.Verdict != spec.VerdictError || !strings.Contains(r.Reason, "stop and start") || strings.Contains(r.Reason, "passthrough") || r.Down > 1<<10 {
				t.Errorf("the record says %+v", r)
			}
			// A restarted sandbox has an authority of that day.
			w = start(t, document(t, 1, rules), apiHosts, o.trusting, func(c *Config) { c.now = clock.now })
			serial(client())
		})
	}
}
