package gateway

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framed speaks HTTP/2 from inside, frame by frame, with any content.
type framed struct {
	*http2.Framer
	c    *tls.Conn
	port uint16
	mark string // of its usual requests
}

func (w *world) framed(t testing.TB, port uint16) *framed {
	t.Helper()
	f, err := w.tryFramed(t, port)
	must(t, err)
	return f
}

// tryFramed is framed for a gateway that may refuse the connection.
func (w *world) tryFramed(t testing.TB, port uint16) (*framed, error) {
	t.Helper()
	raw, err := w.in.DialName(t.Context(), "api.example.com", port)
	if err != nil {
		return nil, err
	}
	conf := w.trust()
	conf.ServerName, conf.NextProtos = "api.example.com", []string{"h2"}
	c := tls.Client(raw, conf)
	t.Cleanup(func() { _ = raw.Close() })
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return nil, err
	}
	f := &framed{Framer: http2.NewFramer(c, c), c: c, port: port}
	f.AllowIllegalWrites = true
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return f, f.WriteSettings()
}

// field is a header field, or a fake one.
type field struct{ name, value string }

// usual returns the head of an allowed request.
func (f *framed) usual(method string) []field {
	head := []field{{":method", method}, {":scheme", "https"}, {":authority", f.authority()}, {":path", "/ok"}}
	if f.mark != "" {
		head = append(head, field{markHeader, f.mark})
	}
	return head
}

// markHeader tells requests apart at the server: a late one is not taken for one of a later
// attempt.
const markHeader = "x-mark"

func (f *framed) authority() string { return fmt.Sprintf("api.example.com:%d", f.port) }

// head sends a HEADERS frame. A failure here shows in the answer.
func (f *framed) head(stream uint32, end bool, fields ...field) {
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block(fields...), EndHeaders: true, EndStream: end})
}

func block(fields ...field) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for _, x := range fields {
		_ = enc.WriteField(hpack.HeaderField{Name: x.name, Value: x.value})
	}
	return b.Bytes()
}

// outcome returns how the gateway answers a stream: a status, or the end of the stream or of the
// connection.
func (f *framed) outcome(t testing.TB, stream uint32) string {
	t.Helper()
	return f.outcomes(t, stream)[0]
}

// outcomes returns how the gateway answers some streams, when it has answered all.
func (f *framed) outcomes(t testing.TB, streams ...uint32) []string {
	t.Helper()
	said, open := map[uint32]string{}, slices.Clone(streams)
	end := func(stream uint32, how string) {
		if !slices.Contains(open, stream) {
			return
		}
		said[stream] += how
		open = slices.DeleteFunc(open, func(s uint32) bool { return s == stream })
	}
	endAll := func(how string) {
		for _, s := range slices.Clone(open) {
			end(s, how)
		}
	}
	for len(open) > 0 {
		frame, err := f.ReadFrame()
		switch {
		case isTimeout(err):
			t.Fatalf("streams %d: no answer", open)
		case err != nil:
			endAll("closed")
		}
		switch x := frame.(type) {
		case *http2.SettingsFrame:
			if !x.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.GoAwayFrame:
			if x.ErrCode != http2.ErrCodeNo {
				endAll("gone")
			}
		case *http2.RSTStreamFrame:
			end(x.StreamID, "reset")
		case *http2.MetaHeadersFrame:
			if said[x.StreamID] = x.PseudoValue("status"); x.StreamEnded() {
				end(x.StreamID, "")
			}
		case *http2.DataFrame:
			if x.StreamEnded() {
				end(x.StreamID, "")
			}
		}
	}
	how := make([]string, len(streams))
	for i, s := range streams {
		how[i] = said[s]
	}
	return how
}

// listener is a real server of one version of HTTP. It keeps all of each request.
type listener struct {
	port uint16
	mu   sync.Mutex
	all  []string
}

func newListener(t testing.TB, h2 bool) (*listener, *origin) {
	t.Helper()
	trust, l := newOrigin(t, true, func(http.ResponseWriter, *http.Request) {}), &listener{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			return // it broke off, and does not count as a request
		}
		l.all = append(l.all, fmt.Sprintf("%s %s %s %q %q %q", r.Method, r.Host, r.RequestURI, r.Header, body, r.Trailer))
	}))
	s.Config.ErrorLog = trust.Config.ErrorLog
	s.EnableHTTP2, s.TLS = h2, &tls.Config{GetCertificate: trust.TLS.GetCertificate}
	s.StartTLS()
	t.Cleanup(s.Close)
	_, err := fmt.Sscanf(s.URL, "https://127.0.0.1:%d", &l.port)
	must(t, err)
	return l, trust
}

// take returns the requests that arrived since the last call.
func (l *listener) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// TestA11FrontingOnOneConnection checks that on a connection with an allowed host, a stream may ask
// for no other host, even an allowed one. The streams before and after it go on.
func TestA11FrontingOnOneConnection(t *testing.T) {
	l, trust := newListener(t, true)
	w := start(t, document(t, 1, "inspect: all\nallow: [api.example.com, other.example.com]\n"), apiHosts, trust.trusting)
	f := w.framed(t, l.port)
	stream := uint32(1)
	ask := func(fields ...field) string {
		defer func() { stream += 2 }()
		f.head(stream, true, fields...)
		return f.outcome(t, stream)
	}
	plain := []field{{":method", "GET"}, {":scheme", "https"}, {":path", "/ok"}}
	other := fmt.Sprintf("other.example.com:%d", l.port)
	for what, more := range map[string][]field{
		"authority":            {{":authority", other}},
		"no port":              {{":authority", "other.example.com"}},
		"not allowed at all":   {{":authority", "evil.example"}},
		"host alone":           {{"host", other}},
		"host beside":          {{":authority", f.authority()}, {"host", other}},
		"authority beside":     {{":authority", other}, {"host", f.authority()}},
		"user":                 {{":authority", f.authority() + "@" + other}},
		"name, a dot after it": {{":authority", fmt.Sprintf("other.example.com.:%d", l.port)}},
	} {
		if got := ask(f.usual("GET")...); got != "200" {
			t.Fatalf("before %s: %s", what, got)
		}
		if n := len(l.take()); n != 1 {
			t.Fatalf("before %s the server saw %d requests", what, n)
		}
		if got := ask(append(slices.Clone(plain), more...)...); got == "200" {
			if saw := l.take(); len(saw) != 1 || !strings.HasPrefix(saw[0], "GET "+f.authority()+" ") || strings.Contains(saw[0], "other.example.com") {
				t.Errorf("%s: the server saw %q", what, saw)
			}
		} else if got != "421" && got != "400" && got != "reset" {
			t.Errorf("%s: %s", what, got)
		}
		if saw := l.take(); len(saw) > 0 {
			t.Errorf("%s: the server saw %q", what, saw)
		}
	}
	if got := ask(f.usual("GET")...); got != "200" {
		t.Errorf("behind all of them: %s", got)
	}
}

// TestB1SmugglingInFrames checks that requests that HTTP/2 can write, but HTTP/1 would read as
// several or as another one, reach no server of either version.
func TestB1SmugglingInFrames(t *testing.T) {
	const evil = "GET /smuggled HTTP/1.1\r\nHost: other.example.com\r\n\r\n"
	type attempt struct {
		what    string
		sent    int // requests that may arrive
		do      func(*framed)
		answers []uint32 // the streams that the gateway must answer, one way or another
	}
	var attempts []attempt
	add := func(what string, sent int, do func(*framed), answers ...uint32) {
		attempts = append(attempts, attempt{what, sent, do, answers})
	}
	// with adds fields to a usual head; without replaces one of it.
	with := func(what string, fields ...field) {
		add(what, 0, func(f *framed) { f.head(1, true, append(f.usual("GET"), fields...)...) }, 1)
	}
	instead := func(what, name string, values ...string) {
		add(what, 0, func(f *framed) {
			var all []field
			for _, x := range f.usual("GET") {
				if x.name != name {
					all = append(all, x)
					continue
				}
				for _, v := range values {
					all = append(all, field{name, strings.ReplaceAll(v, "OWN", f.authority())})
				}
			}
			f.head(1, true, all...)
		}, 1)
	}
	for _, x := range []field{
		{"connection", "close"},
		{"keep-alive", "timeout=5"},
		{"proxy-connection", "keep-alive"},
		{"transfer-encoding", "chunked"},
		{"upgrade", "h2c"},
		{"te", "gzip"},
		{":smuggled", "x"},
		{":status", "200"},
		{":protocol", "websocket"},
		{":path", "/smuggled"},
		{":method", "DELETE"},
		{":authority", "other.example.com"},
		{":scheme", "http"},
		{"X-Smuggled", "x"},
		{"x smuggled", "x"},
		{"x-a:smuggled", "x"},
		{"x\r\nsmuggled", "x"},
		{"x\x00smuggled", "x"},
		{"", "smuggled"},
		{"x-a: b\r\nx-smuggled", "x"},
		{"x-a", "b\r\nX-Smuggled: c"},
		{"x-a", "b\nX-Smuggled: c"},
		{"x-a", "b\rX-Smuggled: c"},
		{"x-a", "b\x00smuggled"},
		{"x-a", "b\r\n\r\n" + evil},
		{"content-length", "+0"},
		{"content-length", "-1"},
		{"content-length", "0, 0"},
		{"content-length", "0x0"},
		{"content-length", "60"},
	} {
		with(fmt.Sprintf("%q: %q", x.name, x.value), x)
	}
	with("two lengths", field{"content-length", "0"}, field{"content-length", "60"})
	for _, name := range []string{":method", ":scheme", ":path"} {
		instead("no "+name, name)
		instead("empty "+name, name, "")
	}
	instead("no authority", ":authority")
	for _, v := range []string{"ok", "*", "http://other.example.com/smuggled", "/ok HTTP/1.1\r\nX-Smuggled: x", "/ok\x00smuggled", "/ok/../smuggled", "/ok smuggled", "//other.example.com/ok", "?smuggled"} {
		instead(fmt.Sprintf("path %q", v), ":path", v)
	}
	for _, v := range []string{"get", "GET /smuggled HTTP/1.1\r\nX: ", "G ET", "CONNECT", "PRI", "GET\x00"} {
		instead(fmt.Sprintf("method %q", v), ":method", v)
	}
	for _, v := range []string{"ftp", "https://other.example.com/smuggled?", "https\r\nX-Smuggled: x"} {
		instead(fmt.Sprintf("scheme %q", v), ":scheme", v)
	}
	for _, v := range []string{"other.example.com", "api.example.com:1", "OWN/smuggled", "smuggled@OWN", "OWN\r\nX-Smuggled: x", "OWN other.example.com", "OWN,other.example.com"} {
		instead(fmt.Sprintf("authority %q", v), ":authority", v)
	}
	add("CONNECT as it should be", 0, func(f *framed) {
		f.head(1, false, field{":method", "CONNECT"}, field{":authority", "other.example.com:443"})
	}, 1)
	add("CONNECT to itself", 0, func(f *framed) { f.head(1, false, field{":method", "CONNECT"}, field{":authority", f.authority()}) }, 1)
	add("pseudo behind others", 0, func(f *framed) {
		all := f.usual("GET")
		f.head(1, true, all[0], all[1], all[2], field{"x-a", "b"}, all[3])
	}, 1)
	// The announced bytes arrive, and nothing beyond them.
	add("more than the length", 1, func(f *framed) {
		f.head(1, false, append(f.usual("POST"), field{"content-length", "0"})...)
		_ = f.WriteData(1, true, []byte(evil))
	}, 1)
	add("less than the length", 0, func(f *framed) {
		f.head(1, false, append(f.usual("POST"), field{"content-length", "60"})...)
		_ = f.WriteData(1, true, []byte("a"))
	}, 1)
	add("broken off", 0, func(f *framed) {
		f.head(1, false, append(f.usual("POST"), field{"content-length", "60"})...)
		_ = f.WriteData(1, false, []byte("a"))
		_ = f.WriteRSTStream(1, http2.ErrCodeCancel)
		f.head(1, true, f.usual("GET")...)
	}) // the client no longer waits for an answer
	add("trailers that were not announced", 1, func(f *framed) { // go no further
		f.head(1, false, f.usual("POST")...)
		_ = f.WriteData(1, false, []byte("a"))
		f.head(1, true, field{"transfer-encoding", "chunked"}, field{"x-smuggled", "x"})
	}, 1)
	for what, trailer := range map[string][]field{
		"pseudo trailer": {{":path", "/smuggled"}}, "trailer with line ends": {{"x-a", "b\r\n\r\n" + evil}}, "upper trailer": {{"X-Smuggled", "x"}},
	} {
		add(what, 0, func(f *framed) {
			f.head(1, false, f.usual("POST")...)
			_ = f.WriteData(1, false, []byte("a"))
			f.head(1, true, trailer...)
		}, 1)
	}
	add("trailer without an end", 0, func(f *framed) {
		f.head(1, false, f.usual("POST")...)
		f.head(1, false, field{"x-a", "b"})
	}, 1)
	smuggled := func(f *framed) []field { all := f.usual("GET"); all[3].value = "/smuggled"; return all }
	add("a head behind the end", 1, func(f *framed) { f.head(1, true, f.usual("GET")...); f.head(1, true, smuggled(f)...) }, 1)
	add("data behind the end", 1, func(f *framed) { f.head(1, true, f.usual("GET")...); _ = f.WriteData(1, true, []byte(evil)) }, 1)
	add("an old stream", 1, func(f *framed) { f.head(3, true, f.usual("GET")...); f.head(1, true, smuggled(f)...) }, 3)
	add("a stream of the server's", 0, func(f *framed) { f.head(2, true, smuggled(f)...) })
	add("no stream", 0, func(f *framed) { f.head(0, true, smuggled(f)...) })
	add("data first", 0, func(f *framed) { _ = f.WriteData(1, true, []byte(evil)) }, 1)
	add("the rest of no head", 0, func(f *framed) { _ = f.WriteContinuation(1, true, block(smuggled(f)...)) }, 1)
	add("the rest of another head", 0, func(f *framed) {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(f.usual("GET")...), EndStream: true})
		_ = f.WriteContinuation(3, true, block(field{"x-smuggled", "x"}))
	}, 1)
	add("a promise", 0, func(f *framed) {
		_ = f.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: block(smuggled(f)...), EndHeaders: true})
	})
	add("HTTP/1 behind the preface", 0, func(f *framed) { _, _ = io.WriteString(f.c, evil) })

	for _, h2 := range []bool{false, true} {
		l, trust := newListener(t, h2)
		w := start(t, document(t, 1, "inspect: all\nallow: [{host: api.example.com, methods: [GET, POST], paths: [/ok]}, other.example.com]\n"), apiHosts, trust.trusting)
		behind := make([]string, len(attempts))
		for i, a := range attempts {
			f := w.framed(t, l.port)
			f.mark = fmt.Sprint("attempt ", i)
			a.do(f)
			// The request after the attempt is answered, unless the connection ended with the attempt:
			// then none of its bytes are still on their way. Once it is answered, none of the attempt's
			// are either.
			f.mark = fmt.Sprint("behind ", i)
			f.head(5, true, f.usual("GET")...)
			behind[i] = f.outcomes(t, append([]uint32{5}, a.answers...)...)[0]
			_ = f.c.Close()
			// Over the same connection to the server, if it was kept.
			control := w.framed(t, l.port)
			control.mark = fmt.Sprint("control ", i)
			control.head(1, true, control.usual("GET")...)
			if got := control.outcome(t, 1); got != "200" {
				t.Errorf("h2 %t: behind %s: %s", h2, a.what, got)
			}
			_ = control.c.Close()
		}
		saw := map[string]int{}
		for _, s := range l.take() {
			if strings.Contains(strings.ToLower(s), "smuggled") || strings.Contains(s, "other.example.com") || !strings.HasPrefix(s[strings.Index(s, " ")+1:], fmt.Sprintf("api.example.com:%d /ok ", l.port)) {
				t.Errorf("h2 %t: the server saw %s", h2, s)
			}
			m := marked.FindStringSubmatch(s)
			if m == nil {
				t.Errorf("h2 %t: nobody asked the server for %s", h2, s)
				continue
			}
			saw[m[1]]++
		}
		for i, a := range attempts {
			if n := saw[fmt.Sprint("attempt ", i)]; n > a.sent {
				t.Errorf("h2 %t: %s: the server saw %d of %d requests", h2, a.what, n, a.sent)
			}
			if n := saw[fmt.Sprint("behind ", i)]; n > 1 || (n == 1) != (behind[i] == "200") {
				t.Errorf("h2 %t: what is behind %s was answered %q, and the server saw %d of it", h2, a.what, behind[i], n)
			}
			if n := saw[fmt.Sprint("control ", i)]; n != 1 {
				t.Errorf("h2 %t: the request after %s arrived %d times", h2, a.what, n)
			}
		}
	}
}

// marked finds the mark in a listener's record of a request.
var marked = regexp.MustCompile(`"X-Mark":\["((?:attempt|behind|control) [0-9]+)"\]`)
