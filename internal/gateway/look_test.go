package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/ca"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/spec"
)

// document compiles a policy file, and adds the loopback.
func document(t testing.TB, generation uint64, yaml string) *policy.Policy {
	t.Helper()
	f, err := policyfile.Decode([]byte("version: 1\n" + yaml))
	must(t, err)
	open, err := policy.ParseRule(policy.Allow, "127.0.0.0/8")
	must(t, err)
	p, err := policy.Compile(generation, policy.Input{Layer: policy.LayerUser, Block: f.Block},
		policy.Input{Layer: policy.LayerSandbox, Block: policy.Block{Allow: []policy.Rule{open}}})
	must(t, err)
	return p
}

// origin is a real server outside. It records the requests.
type origin struct {
	*httptest.Server
	port  uint16
	roots *x509.CertPool

	mu   sync.Mutex
	seen []string // method and URI of each request
	open int      // connections that have not ended
}

func newOrigin(t testing.TB, secure bool, h http.HandlerFunc) *origin {
	t.Helper()
	authority, err := ca.New("outside", time.Now)
	must(t, err)
	o := &origin{roots: x509.NewCertPool()}
	o.roots.AppendCertsFromPEM(authority.Certificate())
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.seen = append(o.seen, r.Method+" "+r.RequestURI)
		o.mu.Unlock()
		h(w, r)
	}))
	o.Config.ErrorLog = log.New(io.Discard, "", 0)
	o.Config.ConnState = func(c net.Conn, state http.ConnState) {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch state {
		case http.StateNew:
			o.open++
		case http.StateClosed, http.StateHijacked:
			o.open--
		}
	}
	if secure {
		o.EnableHTTP2 = true
		o.TLS = &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return authority.Leaf(h.ServerName)
		}}
		o.StartTLS()
	} else {
		o.Start()
	}
	t.Cleanup(o.Close)
	o.port = uint16(o.Listener.Addr().(*net.TCPAddr).Port)
	return o
}

// requests returns the requests that arrived.
func (o *origin) requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.seen...)
}

// settles waits until every connection has ended: the server may read bytes later than the client
// learns of their refusal.
func (o *origin) settles(t testing.TB) {
	t.Helper()
	settled(t, o.port, func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.open
	})
}

// settled waits until every connection to a server that was made before has ended there.
func settled(t testing.TB, port uint16, open func() int) {
	t.Helper()
	// Connections are accepted in order: once this one is answered, none waits before it.
	last, err := net.DialTCP("tcp4", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
	must(t, err)
	defer last.Close()
	must(t, last.CloseWrite())
	_, err = io.ReadAll(last)
	must(t, err)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if open() == 0 {
			return
		}
	}
	t.Fatal("a connection to the server does not end")
}

// trusting makes the gateway trust a server's authority.
func (o *origin) trusting(c *Config) { c.Roots = o.roots }

// client speaks HTTP from inside, and trusts the sandbox's authority alone.
func (w *world) client(t testing.TB, h2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{
		DialContext:       w.dialName,
		TLSClientConfig:   w.trust(),
		ForceAttemptHTTP2: h2, DisableCompression: true, ExpectContinueTimeout: time.Second,
	}
	if !h2 {
		tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (w *world) trust() *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.Certificate())
	return &tls.Config{RootCAs: roots}
}

func (w *world) dialName(ctx context.Context, _, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err == nil {
		return w.in.Dial(ctx, to)
	}
	host, portText, _ := net.SplitHostPort(address)
	port, err := net.LookupPort("tcp", portText)
	if err != nil {
		return nil, err
	}
	return w.in.DialName(ctx, host, uint16(port))
}

// head is the head of an answer.
type head struct {
	Proto  string
	Header http.Header
}

// fetch makes a request and returns the status and the whole answer.
func fetch(t testing.TB, c *http.Client, method, url string, body io.Reader, header ...string) (int, string, head) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	must(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := c.Do(r)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(b), head{resp.Proto, resp.Header}
}

var apiHosts = map[string][]string{"api.example.com": here, "other.example.com": here}

const readOnly = `allow:
  - {host: api.example.com, methods: [GET, HEAD], paths: ["/public/**"], why: reading is fine}
  - {host: api.example.com, methods: [POST], paths: [/upload], max_body: 1KiB}
`

// TestRequestsAreJudged checks that requests are judged one by one, over both versions of HTTP. A
// refused request is explained and never leaves.
func TestRequestsAreJudged(t *testing.T) {
	for _, secure := range []bool{true, false} {
		for _, h2 := range []bool{false, true} {
			if h2 && !secure {
				continue
			}
			t.Run(fmt.Sprintf("tls %t, h2 %t", secure, h2), func(t *testing.T) {
				o := newOrigin(t, secure, func(w http.ResponseWriter, r *http.Request) {
					b, _ := io.ReadAll(r.Body)
					fmt.Fprintf(w, "%s %s %s %s %d", r.Proto, r.Method, r.Host, r.RequestURI, len(b))
				})
				w := start(t, document(t, 3, readOnly), apiHosts, o.trusting)
				c := w.client(t, h2)
				scheme := map[bool]string{true: "https", false: "http"}[secure]
				url := fmt.Sprintf("%s://api.example.com:%d", scheme, o.port)

				status, text, resp := fetch(t, c, "GET", url+"/public/a%2Fb?x=1&y=%20;z", nil)
				proto := map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"}[secure] // towards the server it is the server's own
				if want := fmt.Sprintf("%s GET api.example.com:%d /public/a%%2Fb?x=1&y=%%20;z 0", proto, o.port); status != 403 {
					t.Errorf("an ambiguous path: %d %s; not %s", status, text, want)
				}
				status, text, resp = fetch(t, c, "GET", url+"/public/a%20b?x=1&y=%20;z", nil)
				if want := fmt.Sprintf("%s GET api.example.com:%d /public/a%%20b?x=1&y=%%20;z 0", proto, o.port); status != 200 || text != want {
					t.Errorf("%d %q, want %q", status, text, want)
				}
				if h2 != (resp.Proto == "HTTP/2.0") {
					t.Errorf("the inside spoke %s", resp.Proto)
				}
				status, text, _ = fetch(t, c, "DELETE", url+"/public/a", nil)
				if status != 403 || !strings.Contains(text, "bothy policy allow") || !strings.Contains(text, "--sandbox box") || !strings.Contains(text, "policy.bothy") {
					t.Errorf("%d %s", status, text)
				}
				status, text, _ = fetch(t, c, "GET", url+"/private", nil, "Accept", "application/json")
				var said struct {
					Error struct{ Message, Reason, Command string }
				}
				if err := json.Unmarshal([]byte(text), &said); err != nil || status != 403 || said.Error.Command == "" || said.Error.Reason == "" {
					t.Errorf("%d %s (%v)", status, text, err)
				}
				if status, text, _ = fetch(t, c, "POST", url+"/upload", strings.NewReader("hello")); status != 200 || !strings.HasSuffix(text, " 5") {
					t.Errorf("%d %s", status, text)
				}
				if status, text, _ = fetch(t, c, "POST", url+"/upload", strings.NewReader(strings.Repeat("x", 1025))); status != 403 || !strings.Contains(text, tooMuch) {
					t.Errorf("too long, and it says so: %d %s", status, text)
				}
				for _, got := range o.requests() {
					if !strings.Contains(got, "/public/a%20b") && got != "POST /upload" {
						t.Errorf("the server saw %q", got)
					}
				}
				r := w.record(t, "the denied request", func(r spec.NetworkRecord) bool {
					return r.Event == spec.NetworkRequest && r.Method == http.MethodDelete
				})
				if r.Verdict != spec.VerdictDeny || r.Status != 403 || r.Path != "/public/a" || r.Name != "api.example.com" || r.Suggest == "" || r.Generation != 3 {
					t.Errorf("%+v", r)
				}
				r = w.record(t, "the allowed one", func(r spec.NetworkRecord) bool {
					return r.Event == spec.NetworkRequest && r.Method == http.MethodPost && r.Status == 200
				})
				if r.Verdict != spec.VerdictAllow || r.Up != 5 || r.Down == 0 || r.Addr.String() != "127.0.0.1" || r.Rule == "" {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// tooMuch is the reason of a refused body.
const tooMuch = `/upload holds more than rule "api.example.com POST /upload body up to 1024 bytes" (user) allows`

// TestA18BodyLimit checks that a body of unknown length is held to the limit while it streams. Both
// its sender and the log learn the rule.
func TestA18BodyLimit(t *testing.T) {
	got := make(chan int, 10)
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err == nil {
			got <- len(b)
		}
	})
	w := start(t, document(t, 1, readOnly), apiHosts, o.trusting)
	for _, h2 := range []bool{false, true} {
		body := io.MultiReader(strings.NewReader(strings.Repeat("x", 1000)), strings.NewReader(strings.Repeat("x", 1000)))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("https://api.example.com:%d/upload", o.port), body)
		must(t, err)
		resp, err := w.client(t, h2).Do(r)
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), tooMuch) || !strings.Contains(string(text), "bothy policy allow ") {
				t.Errorf("h2 %t: %d %s", h2, resp.StatusCode, text)
			}
		}
		proto := map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"}[h2]
		told := w.record(t, "the refusal over "+proto, func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkRequest && r.Protocol == proto })
		command := fmt.Sprintf("bothy policy allow api.example.com:%d --method POST --path /upload --sandbox box", o.port)
		if told.Verdict != spec.VerdictDeny || told.Suggest != command || !strings.HasSuffix(told.Reason, tooMuch) || told.Body <= 1024 {
			t.Errorf("h2 %t: it says %+v", h2, told)
		}
	}
	select {
	case n := <-got:
		t.Errorf("the server took a complete body of %d bytes", n)
	default:
	}
}

// TestA11Fronting checks that the request's authority is the connection's, on every stream (A11).
func TestA11Fronting(t *testing.T) {
	o := newOrigin(t, true, func(http.ResponseWriter, *http.Request) {})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com, other.example.com]\n"), apiHosts, o.trusting)
	for _, h2 := range []bool{false, true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://api.example.com:%d/", o.port), nil)
		must(t, err)
		r.Host = fmt.Sprintf("other.example.com:%d", o.port)
		resp, err := w.client(t, h2).Do(r)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("h2 %t: %d", h2, resp.StatusCode)
		}
	}
	if n := len(o.requests()); n > 0 {
		t.Errorf("the server saw %d requests", n)
	}
}

// TestB1Smuggling checks that a request that could be read in two ways is refused, and the
// connection with it (B1).
func TestB1Smuggling(t *testing.T) {
	o := newOrigin(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // else a well-formed request's connection stays open
		_, _ = io.Copy(io.Discard, r.Body)
	})
	w := start(t, document(t, 1, "inspect: all\nallow: [{host: api.example.com, methods: [GET, POST], paths: [/ok]}]\n"), apiHosts)
	host := fmt.Sprintf("Host: api.example.com:%d\r\n", o.port)
	smuggled := "GET /smuggled HTTP/1.1\r\n" + host + "\r\n"
	answer := func(t *testing.T, request string) (line string, err error) {
		c, err := w.in.DialName(t.Context(), "api.example.com", o.port)
		must(t, err)
		defer c.Close()
		_, _ = io.WriteString(c, request)
		_ = c.SetReadDeadline(time.Now().Add(patience))
		return textproto.NewReader(bufio.NewReader(c)).ReadLine()
	}
	for name, request := range map[string]string{
		"CL and TE":            "POST /ok HTTP/1.1\r\n" + host + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"TE and CL":            "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n0\r\n\r\n" + smuggled,
		"two CL":               "POST /ok HTTP/1.1\r\n" + host + "Content-Length: 0\r\nContent-Length: 60\r\n\r\n" + smuggled,
		"same CL twice":        "POST /ok HTTP/1.1\r\n" + host + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n" + smuggled,
		"CL list":              "POST /ok HTTP/1.1\r\n" + host + "Content-Length: 0, 0\r\n\r\n" + smuggled,
		"CL signed":            "POST /ok HTTP/1.1\r\n" + host + "Content-Length: +0\r\n\r\n" + smuggled,
		"CL of another base":   "POST /ok HTTP/1.1\r\n" + host + "Content-Length: 0x10\r\n\r\n" + smuggled,
		"CL too large":         "POST /ok HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n" + smuggled,
		"two TE":               "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"TE list":              "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"TE of another kind":   "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,
		"TE with a tab":        "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + smuggled,
		"TE with HTTP/1.0":     "POST /ok HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"space before colon":   "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"folded":               "POST /ok HTTP/1.1\r\n" + host + "X-A: b\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"folded with a tab":    "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n" + smuggled,
		"bare LF":              "GET /ok HTTP/1.1\n" + host + "\n",
		"bare LF in a header":  "GET /ok HTTP/1.1\r\nX-A: b\n" + host + "\r\n",
		"bare CR":              "GET /ok HTTP/1.1\r\nX-A: b\rX-B: c\r\n" + host + "\r\n",
		"NUL":                  "GET /ok HTTP/1.1\r\nX-A: b\x00c\r\n" + host + "\r\n",
		"chunk extension":      "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0;a=b\r\n\r\n" + smuggled,
		"chunk size signed":    "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n" + smuggled,
		"chunk size too large": "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n\r\n" + smuggled,
		"chunk too long":       "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n" + smuggled,
		"chunk with bare LF":   "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\n\n" + smuggled,
		"framing trailer":      "POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 60\r\n\r\n" + smuggled,
		"absolute form":        fmt.Sprintf("GET http://api.example.com:%d/ok HTTP/1.1\r\n", o.port) + host + "\r\n",
		"absolute, other host": "GET http://other.example.com/ok HTTP/1.1\r\n" + host + "\r\n",
		"authority form":       "CONNECT other.example.com:443 HTTP/1.1\r\n" + host + "\r\n",
		"CONNECT of a path":    "CONNECT /ok HTTP/1.1\r\n" + host + "\r\n",
		"two hosts":            "GET /ok HTTP/1.1\r\n" + host + "Host: other.example.com\r\n\r\n",
		"no host":              "GET /ok HTTP/1.1\r\n\r\n",
		"no host, old":         "GET /ok HTTP/1.0\r\n\r\n",
		"host with user":       fmt.Sprintf("GET /ok HTTP/1.1\r\nHost: a@api.example.com:%d\r\n\r\n", o.port),
		"host of a path":       fmt.Sprintf("GET /ok HTTP/1.1\r\nHost: api.example.com:%d/x\r\n\r\n", o.port),
		"host, other port":     "GET /ok HTTP/1.1\r\nHost: api.example.com:1\r\n\r\n",
		"space in the target":  "GET /ok x HTTP/1.1\r\n" + host + "\r\n",
		"two spaces":           "GET  /ok HTTP/1.1\r\n" + host + "\r\n",
		"HTTP/0.9":             "GET /ok\r\n\r\n",
		"HTTP/1.2":             "GET /ok HTTP/1.2\r\n" + host + "\r\n",
		"HTTP/2 prior":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"empty line first":     "\r\nGET /ok HTTP/1.1\r\n" + host + "\r\n",
		"header before line":   "X-A: b\r\nGET /ok HTTP/1.1\r\n" + host + "\r\n",
		"dots":                 "GET /ok/../smuggled HTTP/1.1\r\n" + host + "\r\n",
		"escaped dots":         "GET /ok/%2e%2e/smuggled HTTP/1.1\r\n" + host + "\r\n",
		"upgrade to h2c":       "GET /ok HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
		"judged, then dropped": "GET /ok HTTP/1.1\r\n" + host + "X-A: b\r\nConnection: X-A\r\n\r\n",
		"upgrade with a body":  "GET /ok HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc",
		"upgrade to nothing":   "GET /ok HTTP/1.1\r\n" + host + "Connection: Upgrade\r\n\r\n",
		"head without an end":  "GET /ok HTTP/1.1\r\n" + host + strings.Repeat("X-A: "+strings.Repeat("b", 1000)+"\r\n", 200),
	} {
		t.Run(name, func(t *testing.T) {
			switch line, err := answer(t, request); {
			case err != nil && err != io.EOF && !isReset(err):
				t.Error(err)
			case err == nil && !strings.Contains(line, " 400 ") && !strings.Contains(line, " 403 ") && !strings.Contains(line, " 421 "):
				t.Errorf("it was answered %q", line)
			}
		})
	}
	for _, request := range []string{
		"GET /ok HTTP/1.1\r\n" + host + "\r\n",
		"POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
	} {
		if line, err := answer(t, request); err != nil || !strings.Contains(line, " 200 ") {
			t.Errorf("a request that is none of these was answered %q, %v", line, err)
		}
	}
	o.settles(t)
	gets := 0
	for _, got := range o.requests() {
		switch got {
		case "POST /ok": // the beginning of a body may have been sent before an error in it
		case "GET /ok":
			gets++
		default:
			t.Errorf("the server saw %q", got)
		}
	}
	if gets != 1 {
		t.Errorf("the server saw GET /ok %d times", gets)
	}
}

// isReset reports whether the other side has cut a connection.
func isReset(err error) bool { return err != nil && strings.Contains(err.Error(), "reset") }

// TestPipeline checks that consecutive requests on one connection are each judged, also when they
// come at once.
func TestPipeline(t *testing.T) {
	o := newOrigin(t, false, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "<%s>", b)
	})
	w := start(t, document(t, 1, "allow: [{host: api.example.com, methods: [GET, POST], paths: [/ok]}]\n"), apiHosts)
	c, err := w.in.DialName(t.Context(), "api.example.com", o.port)
	must(t, err)
	defer c.Close()
	host := fmt.Sprintf("Host: api.example.com:%d\r\n", o.port)
	go func() {
		_, _ = io.WriteString(c, "POST /ok HTTP/1.1\r\n"+host+"Content-Length: 3\r\n\r\nabc"+
			"POST /ok HTTP/1.1\r\n"+host+"Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\nX-T: 1\r\n\r\n"+
			"GET /denied HTTP/1.1\r\n"+host+"\r\n"+
			"GET /ok HTTP/1.1\r\n"+host+"\r\n"+
			"GET /ok HTTP/1.1\nfolded\r\n\r\n")
	}()
	in := bufio.NewReader(c)
	for _, want := range []string{"200 <abc>", "200 <def>", "403 ", "200 <>", "400 "} {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		b, err := io.ReadAll(resp.Body)
		must(t, err)
		must(t, resp.Body.Close())
		if got := fmt.Sprintf("%d %s", resp.StatusCode, b); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("the connection goes on: %v", err)
	}
}

// TestBulk checks that bytes pass unchanged both ways. TestBulkInConstantMemory checks their
// amount.
func TestBulk(t *testing.T) {
	const size = 8 << 20
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.CopyN(w, zeros{}, size)
			return
		}
		h := sha256.New()
		n, _ := io.Copy(h, r.Body)
		fmt.Fprintf(w, "%d %x", n, h.Sum(nil))
	})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	for _, h2 := range []bool{false, true} {
		c := w.client(t, h2)
		url := fmt.Sprintf("https://api.example.com:%d/", o.port)
		_, text, _ := fetch(t, c, "GET", url, nil)
		if len(text) != size {
			t.Errorf("%d bytes", len(text))
		}
		sent := make([]byte, 8<<20)
		_, _ = rand.Read(sent)
		_, text, _ = fetch(t, c, "PUT", url, bytes.NewReader(sent))
		if want := fmt.Sprintf("%d %x", len(sent), sha256.Sum256(sent)); text != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestServerSentEvents checks that events arrive as they are sent.
func TestServerSentEvents(t *testing.T) {
	next := make(chan struct{})
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	for _, h2 := range []bool{false, true} {
		resp, err := w.client(t, h2).Get(fmt.Sprintf("https://api.example.com:%d/", o.port))
		must(t, err)
		in := bufio.NewReader(resp.Body)
		for i := range 3 {
			line, err := in.ReadString('\n')
			must(t, err)
			if line != fmt.Sprintf("data: %d\n", i) {
				t.Errorf("%q", line)
			}
			_, _ = in.ReadString('\n')
			next <- struct{}{} // only now the next one is sent
		}
		resp.Body.Close()
	}
}

// TestTrailersAndInterim checks that trailers, interim answers and Expect pass.
func TestTrailersAndInterim(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		fmt.Fprintf(w, "%s %s", b, r.Trailer.Get("X-Up"))
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"Late", "43")
	})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	for _, h2 := range []bool{false, true} {
		hints := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code == 103 && h.Get("Link") == "</style.css>" {
				hints++
			}
			return nil
		}})
		body := io.NopCloser(strings.NewReader("body"))
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("https://api.example.com:%d/", o.port), body)
		must(t, err)
		r.Header.Set("Expect", "100-continue")
		r.Trailer = http.Header{"X-Up": {"up"}}
		resp, err := w.client(t, h2).Do(r)
		must(t, err)
		b, err := io.ReadAll(resp.Body)
		must(t, err)
		resp.Body.Close()
		if string(b) != "body up" || resp.Trailer.Get("X-Sum") != "42" || resp.Trailer.Get("Late") != "43" || hints != 1 {
			t.Errorf("h2 %t: %q, trailers %v, %d hints", h2, b, resp.Trailer, hints)
		}
	}
}

// TestBrokenAnswer checks that an answer that breaks off does not look complete.
func TestBrokenAnswer(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	for _, h2 := range []bool{false, true} {
		resp, err := w.client(t, h2).Get(fmt.Sprintf("https://api.example.com:%d/", o.port))
		must(t, err)
		if b, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("h2 %t: %q looks complete", h2, b)
		}
		resp.Body.Close()
	}
}

// TestB4WebSocket checks that a WebSocket passes where a rule says so, and at no other host with
// conditions (B4).
func TestB4WebSocket(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(c, rw)
	})
	w := start(t, document(t, 1, `allow:
  - {host: api.example.com, methods: [GET], paths: [/socket], websocket: true}
  - {host: api.example.com, methods: [GET], paths: [/page]}
`), apiHosts, o.trusting)
	shake := func(path string) (net.Conn, *bufio.Reader, int) {
		raw, err := w.in.DialName(t.Context(), "api.example.com", o.port)
		must(t, err)
		conf := w.trust()
		conf.ServerName = "api.example.com"
		c := tls.Client(raw, conf)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: api.example.com:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", path, o.port)
		in := bufio.NewReader(c)
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		if resp.StatusCode != http.StatusSwitchingProtocols {
			must(t, resp.Body.Close())
		}
		return c, in, resp.StatusCode
	}
	c, _, status := shake("/page")
	c.Close()
	if status != 403 {
		t.Errorf("without websocket: true: %d", status)
	}
	c, in, status := shake("/socket")
	defer c.Close()
	if status != 101 {
		t.Fatalf("%d", status)
	}
	for _, said := range []string{"\x81\x85mask\x00\x01\x02\x03\x04", "no \r\n HTTP \n at all\r\n\r\n"} {
		_, err := io.WriteString(c, said)
		must(t, err)
		got := make([]byte, len(said))
		_, err = io.ReadFull(in, got)
		must(t, err)
		if string(got) != said {
			t.Errorf("%q came back for %q", got, said)
		}
	}
	// A policy without such a rule ends it (B5).
	w.SetPolicy(document(t, 2, "allow: [{host: api.example.com, methods: [GET], paths: [/page]}]\n"))
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := in.ReadByte(); err == nil || isTimeout(err) {
		t.Errorf("it goes on: %v", err)
	}
	r := w.record(t, "its end", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkRequest && r.Status == 101 })
	if r.Verdict != spec.VerdictDeny || !strings.HasPrefix(r.Reason, "the policy changed: ") || !strings.HasSuffix(r.Suggest, "--path /socket --websocket --sandbox box") {
		t.Errorf("%+v", r)
	}
}

// TestB5PolicyChangeDuringRequest checks that an active request ends when the rules no longer allow
// it, and that an allowed one on the same connection goes on (B5).
func TestB5PolicyChangeDuringRequest(t *testing.T) {
	began, finish := make(chan struct{}, 2), make(chan struct{})
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		began <- struct{}{}
		select {
		case <-finish:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "done")
	})
	two := "allow: [{host: api.example.com, paths: [/a]}, {host: api.example.com, paths: [/b]}]\n"
	w := start(t, document(t, 1, two), apiHosts, o.trusting)
	c := w.client(t, true)
	get := func(path string) *http.Response {
		resp, err := c.Get(fmt.Sprintf("https://api.example.com:%d%s", o.port, path))
		must(t, err)
		<-began
		return resp
	}
	a, b := get("/a"), get("/b")
	w.SetPolicy(document(t, 2, "allow: [{host: api.example.com, paths: [/b]}]\n"))
	defer a.Body.Close()
	defer b.Body.Close()
	if text, err := io.ReadAll(a.Body); err == nil {
		t.Errorf("a request nobody allows any more ends with %q", text)
	}
	close(finish)
	if text, err := io.ReadAll(b.Body); err != nil || string(text) != "done" {
		t.Errorf("the other one: %q %v", text, err)
	}
	r := w.record(t, "the end", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkRequest && r.Path == "/a" })
	if r.Verdict != spec.VerdictDeny || !strings.HasPrefix(r.Reason, "the policy changed: ") || r.Generation != 2 ||
		r.Suggest != fmt.Sprintf("bothy policy allow api.example.com:%d --method GET --path /a --sandbox box", o.port) {
		t.Errorf("%+v", r)
	}
}

// TestC11UpstreamIsVerified checks that no request goes to a server without a trusted certificate
// (C11).
func TestC11UpstreamIsVerified(t *testing.T) {
	o := newOrigin(t, true, func(http.ResponseWriter, *http.Request) {})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts)
	status, text, _ := fetch(t, w.client(t, false), "GET", fmt.Sprintf("https://api.example.com:%d/", o.port), nil)
	if status != 502 || !strings.Contains(text, "certificate") {
		t.Errorf("%d %s", status, text)
	}
	if n := len(o.requests()); n > 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// TestB6RedirectIsNotFollowed checks that following a redirect is left to the client (B6).
func TestB6RedirectIsNotFollowed(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://evil.example/", http.StatusFound)
	})
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	status, _, resp := fetch(t, w.client(t, true), "GET", fmt.Sprintf("https://api.example.com:%d/", o.port), nil)
	if status != 302 || resp.Header.Get("Location") != "https://evil.example/" {
		t.Errorf("%d %v", status, resp.Header)
	}
	for _, name := range w.asked() {
		if strings.Contains(name, "evil") {
			t.Errorf("somebody looked up %s", name)
		}
	}
}

// TestNotHTTP checks that a connection that is not HTTP passes where no rule judges requests, and
// is refused elsewhere.
func TestNotHTTP(t *testing.T) {
	port, _ := echo(t, "")
	greeting, _ := echo(t, "220 ready\r\n")
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts)
	talk := func(port uint16, first, want string) error {
		c, err := w.in.DialName(t.Context(), "api.example.com", port)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, first)
		got := make([]byte, len(want))
		_, err = io.ReadFull(c, got)
		if err == nil && string(got) != want {
			err = fmt.Errorf("%q", got)
		}
		return err
	}
	for _, first := range []string{"\r\n\r\nGET /x HTTP/1.1\r\n\r\n", "get /x http/1.1\r\n\r\n", "GET /x\r\n", "GET http://other.example.com/ HTTP/1.1\r\n\r\n"} {
		if err := talk(port, first, first); err == nil {
			t.Errorf("%q passed as something else than HTTP", first)
		}
	}
	for _, first := range []string{"\x00\x00\x00\x08\x04\xd2\x16\x2f", "EHLO there\r\n", "SSH-2.0-x\r\n", "\x16nothing"} {
		if err := talk(port, first, first); err != nil {
			t.Errorf("%q: %v", first, err)
		}
	}
	if err := talk(greeting, "", "220 ready\r\n"); err != nil {
		t.Error(err)
	}
	// A client that only wants to listen.
	mute, err := w.in.DialName(t.Context(), "api.example.com", greeting)
	must(t, err)
	must(t, mute.CloseWrite())
	if b, err := io.ReadAll(mute); err != nil || string(b) != "220 ready\r\n" {
		t.Errorf("%q %v", b, err)
	}
	must(t, mute.Close())
	// A client that begins late is inspected all the same.
	c, err := w.in.DialName(t.Context(), "api.example.com", port)
	must(t, err)
	defer c.Close()
	time.Sleep(2 * firstWord)
	fmt.Fprintf(c, "GET /late HTTP/1.1\r\nHost: api.example.com:%d\r\n\r\n", port)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusBadGateway { // an echo does not count as an answer
		t.Errorf("%d", resp.StatusCode)
	}
	w.record(t, "the late request", func(r spec.NetworkRecord) bool { return r.Event == spec.NetworkRequest && r.Path == "/late" })
	w.SetPolicy(document(t, 2, "allow: [{host: api.example.com, methods: [GET]}]\n"))
	if err := talk(port, "EHLO there\r\n", "EHLO there\r\n"); err == nil {
		t.Error("something else than HTTP passed where requests have to be judged")
	}
}

// TestPassthrough checks that a passthrough host is not inspected.
func TestPassthrough(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "as it is") })
	w := start(t, document(t, 1, "inspect: all\nallow: [{host: api.example.com, passthrough: true}]\n"), apiHosts)
	c := w.client(t, true)
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: o.roots}
	if status, text, _ := fetch(t, c, "GET", fmt.Sprintf("https://api.example.com:%d/", o.port), nil); status != 200 || text != "as it is" {
		t.Errorf("%d %s", status, text)
	}
}

// TestManyRequests checks many requests at once: all are answered.
func TestManyRequests(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com]\n"), apiHosts, o.trusting)
	for _, h2 := range []bool{false, true} {
		c := w.client(t, h2)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for n := range 25 {
					text := fmt.Sprintf("%d %d %s", g, n, strings.Repeat("x", n*100))
					status, got, _ := fetch(t, c, "POST", fmt.Sprintf("https://api.example.com:%d/%d", o.port, g), strings.NewReader(text))
					if status != 200 || got != text {
						t.Errorf("%d %q", status, got)
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestAdvice checks that the inside may ask for reasons.
func TestAdvice(t *testing.T) {
	w := start(t, document(t, 5, "allow: [{host: api.example.com, methods: [GET], why: only reading}]\n"), apiHosts)
	if _, err := w.in.DialName(t.Context(), "evil.example", 443); err == nil {
		t.Fatal("a denied name was reached")
	}
	c := w.client(t, false)
	status, text, _ := fetch(t, c, "GET", "http://policy.bothy/", nil)
	for _, want := range []string{"api.example.com", "evil.example", "bothy policy allow evil.example:443 --sandbox box", "deny"} {
		if !strings.Contains(text, want) || status != 200 {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	status, text, _ = fetch(t, c, "GET", "http://policy.bothy/", nil, "Accept", "application/json")
	var said struct {
		Rules   []struct{ Action, Rule, Why string }
		Refused []struct{ Name, Reason, Command string }
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil || len(said.Rules) != 2 || len(said.Refused) != 1 || status != 200 {
		t.Errorf("%d %s %v", status, text, err)
	}
	if _, text, _ = fetch(t, c, "GET", "http://policy.bothy/check?url=https://api.example.com/&method=DELETE", nil); !strings.Contains(text, "DELETE") || !strings.Contains(text, "deny") {
		t.Errorf("%s", text)
	}
	if status, _, _ = fetch(t, c, "GET", "http://policy.bothy/check?url=%00", nil); status != 400 {
		t.Errorf("%d", status)
	}
	if status, _, _ = fetch(t, c, "POST", "http://policy.bothy/", nil); status != 405 {
		t.Errorf("%d", status)
	}
}

// TestClosedAddressIsToldOutside checks that the address of an allowed name, and the rule that
// would open it, are told outside and not inside: they are the host's own business.
func TestClosedAddressIsToldOutside(t *testing.T) {
	for _, kind := range []string{spec.NetworkFlow, spec.NetworkRequest} {
		text := "allow: [inner.example.com]\n"
		if kind == spec.NetworkRequest {
			text = "inspect: all\n" + text
		}
		w := start(t, document(t, 1, text), map[string][]string{"inner.example.com": {"10.1.2.3"}})
		c := w.client(t, false)
		if kind == spec.NetworkRequest {
			status, text, _ := fetch(t, c, "GET", "http://inner.example.com/", nil)
			if status != 403 || !strings.Contains(text, "leads to an address that is closed") || strings.Contains(text, "10.1.2") {
				t.Errorf("%s: %d %s", kind, status, text)
			}
		} else if conn, err := w.in.DialName(t.Context(), "inner.example.com", 80); err == nil {
			conn.Close()
			t.Errorf("%s: it was reached", kind)
		}
		r := w.record(t, "the refusal", func(r spec.NetworkRecord) bool { return r.Event == kind })
		if r.Verdict != spec.VerdictDeny || r.Addr.String() != "10.1.2.3" || !strings.Contains(r.Reason, "10.1.2.3") || r.Suggest != "bothy policy allow 10.1.2.3:80 --sandbox box" {
			t.Errorf("%s: %+v", kind, r)
		}
		for _, accept := range []string{"text/plain", "application/json"} {
			if _, text, _ := fetch(t, c, "GET", "http://policy.bothy/", nil, "Accept", accept); !strings.Contains(text, "inner.example.com") || strings.Contains(text, "10.1.2") {
				t.Errorf("%s: inside hears %s", kind, text)
			}
		}
	}
}
