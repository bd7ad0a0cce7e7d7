package inject

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// world is a server, a gateway before it that treats requests like the real one, and a client
// inside. All speak TLS.
type world struct {
	t       testing.TB
	set     *Set
	gateway *httptest.Server
	client  *http.Client

	mu   sync.Mutex
	got  []string // heads of requests that reached the server
	errs []error  // refusals
}

func newWorld(t testing.TB, h2 bool, server http.HandlerFunc, change func(*wire.Loan)) *world {
	t.Helper()
	w := &world{t: t}
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		dump, _ := httputil.DumpRequest(r, false)
		w.mu.Lock()
		w.got = append(w.got, r.Proto+" "+string(dump))
		w.mu.Unlock()
		server(rw, r)
	}))
	quiet := log.New(io.Discard, "", 0)
	up.EnableHTTP2, up.Config.ErrorLog = h2, quiet
	up.StartTLS()
	t.Cleanup(up.Close)

	addr := netip.MustParseAddrPort(up.Listener.Addr().String())
	w.set = compile(t, lend(func(l *wire.Loan) {
		l.Hosts = []string{addr.String()}
		if change != nil {
			change(l)
		}
	}), github())
	to := Target{Addr: addr.Addr(), Port: addr.Port(), Secure: true}
	transport := up.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2, transport.DisableCompression = h2, true
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, Transport: transport, ErrorLog: quiet,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "https", Host: addr.String()})
			p.Out.Host = addr.String()
		},
		ModifyResponse: func(resp *http.Response) error { return w.set.Response(resp, to) },
		ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, err error) {
			w.mu.Lock()
			w.errs = append(w.errs, err)
			w.mu.Unlock()
			http.Error(rw, "gateway", http.StatusBadGateway)
		},
	}
	w.gateway = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Host = addr.String()
		if _, err := w.set.Request(r, to, noon); err != nil {
			proxy.ErrorHandler(rw, r, err)
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	w.gateway.EnableHTTP2, w.gateway.Config.ErrorLog = h2, quiet
	w.gateway.StartTLS()
	t.Cleanup(w.gateway.Close)
	w.client = w.gateway.Client()
	w.client.Transport.(*http.Transport).DisableCompression = true
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

// do sends a request with the placeholder in its place.
func (w *world) do(method, path string, body io.Reader, header ...string) (*http.Response, error) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.gateway.URL+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+placeholder)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return w.client.Do(r)
}

// get returns a whole answer as text. An answer that ends too early may end before its head is
// sent.
func (w *world) get(path string, header ...string) string {
	w.t.Helper()
	resp, err := w.do("GET", path, nil, header...)
	if err != nil {
		return fmt.Sprintf("ERROR %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", resp.Status)
	_ = resp.Header.Write(&b)
	_ = resp.Trailer.Write(&b)
	fmt.Fprintf(&b, "\n%s", body)
	if err != nil {
		fmt.Fprintf(&b, "ERROR %v", err)
	}
	return b.String()
}

func (w *world) refusals() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.errs
}

func (w *world) reached() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.got, "\n")
}

func bothProtocols(t *testing.T, f func(t *testing.T, h2 bool)) {
	t.Run("h1", func(t *testing.T) { f(t, false) })
	t.Run("h2", func(t *testing.T) { f(t, true) })
}

// TestC2Echo checks that a server that repeats its request returns the placeholder, or stars, in
// whatever part of the answer and encoding (C2).
func TestC2Echo(t *testing.T) {
	bothProtocols(t, func(t *testing.T, h2 bool) {
		w := newWorld(t, h2, func(rw http.ResponseWriter, r *http.Request) {
			got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			if got != value {
				t.Errorf("the server got %q", r.Header)
			}
			for _, e := range encodings {
				if e.name == r.URL.Query().Get("as") {
					got = e.do(got)
				}
			}
			if !strings.ContainsAny(got, "\x00\n\r") {
				rw.Header().Set("X-Echo", "a "+got+" b")
				rw.Header().Set("Location", "https://x/?t="+got)
			}
			rw.Header().Set("Trailer", "X-End")
			rw.Header().Set("X-"+value, "as a name")
			for i := 0; i < len(got); i += 7 {
				_, _ = io.WriteString(rw, got[i:min(i+7, len(got))])
				rw.(http.Flusher).Flush()
			}
			_, _ = io.WriteString(rw, "|"+got+"|")
			rw.Header().Set("X-End", strings.NewReplacer("\x00", "", "\r", "", "\n", "", "\t", "", "    ", "").Replace(got))
		}, nil)
		for _, e := range encodings {
			got := w.get("/?as=" + url.QueryEscape(e.name))
			if seen := got + e.undo(got); strings.Contains(strings.ToLower(seen), strings.ToLower(value)) || strings.Contains(seen, e.do(value)) || strings.Contains(seen, value[8:]) {
				t.Errorf("%s: came back %s", e.name, got)
			}
			if !strings.Contains(got, "200 OK") || !strings.HasSuffix(got, "|") || !strings.Contains(got, "X-End") {
				t.Errorf("%s: came back %s", e.name, got)
			}
		}
		if got := w.get("/"); strings.Count(got, placeholder) < 4 {
			t.Errorf("came back %s", got)
		}
		if errs := w.refusals(); len(errs) > 0 {
			t.Error(errs)
		}
	})
}

// TestC2CompressedEcho checks that compressed answers are read, and that unreadable ones are not
// passed on.
func TestC2CompressedEcho(t *testing.T) {
	for name, tt := range map[string]struct {
		pack    func(io.Writer) io.WriteCloser
		headers []string
		status  int
		ok      bool
	}{
		"gzip":       {func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, []string{"Content-Encoding", "gzip"}, 200, true},
		"x-gzip":     {func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, []string{"Content-Encoding", "X-GZIP"}, 200, true},
		"zlib":       {func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }, []string{"Content-Encoding", "deflate"}, 200, true},
		"deflate":    {func(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 9); return f }, []string{"Content-Encoding", "deflate"}, 200, true},
		"identity":   {func(w io.Writer) io.WriteCloser { return keep{w} }, []string{"Content-Encoding", "identity"}, 200, true},
		"br":         {func(w io.Writer) io.WriteCloser { return keep{w} }, []string{"Content-Encoding", "br"}, 200, false},
		"twice":      {func(w io.Writer) io.WriteCloser { return keep{w} }, []string{"Content-Encoding", "gzip, gzip"}, 200, false},
		"not gzip":   {func(w io.Writer) io.WriteCloser { return keep{w} }, []string{"Content-Encoding", "gzip"}, 200, false},
		"a part":     {func(w io.Writer) io.WriteCloser { return keep{w} }, []string{"Content-Range", "bytes 0-3/80"}, 206, false},
		"grpc":       {func(w io.Writer) io.WriteCloser { return keep{w} }, []string{"Grpc-Encoding", "gzip"}, 200, false},
		"grpc plain": {func(w io.Writer) io.WriteCloser { return keep{w} }, []string{"Grpc-Encoding", "identity"}, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false, func(rw http.ResponseWriter, r *http.Request) {
				for i := 0; i < len(tt.headers); i += 2 {
					rw.Header().Set(tt.headers[i], tt.headers[i+1])
				}
				rw.Header().Set("Trailer", "X-End")
				rw.WriteHeader(tt.status)
				defer rw.Header().Set("X-End", "end "+r.Header.Get("Authorization"))
				z := tt.pack(rw)
				fmt.Fprintf(z, "begin %s end", r.Header.Get("Authorization"))
				_ = z.Close()
			}, nil)
			got := w.get("/", "Accept-Encoding", "gzip, br")
			if strings.Contains(got, value) || strings.Contains(got, "begin Bearer "+placeholder+" end") != tt.ok || strings.Contains(got, "X-End: end Bearer "+placeholder) != tt.ok {
				t.Errorf("came back %s", got)
			}
			if !strings.Contains(w.reached(), "Accept-Encoding: gzip\r\n") {
				t.Errorf("asked was %s", w.reached())
			}
		})
	}
}

type keep struct{ io.Writer }

func (keep) Close() error { return nil }

// TestEmptyAnswers checks that answers without a body stay without one.
func TestEmptyAnswers(t *testing.T) {
	w := newWorld(t, false, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		if r.URL.Path == "/none" {
			rw.WriteHeader(http.StatusNoContent)
		}
	}, nil)
	for _, c := range []struct{ method, path string }{{"HEAD", "/"}, {"GET", "/none"}, {"GET", "/"}} {
		resp, err := w.do(c.method, c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); len(b) != 0 || err != nil || resp.StatusCode >= 300 {
			t.Errorf("%v: %d, %q, %v", c, resp.StatusCode, b, err)
		}
		_ = resp.Body.Close()
	}
}

// TestEventsAreNotDelayed checks that events are passed on when they come, also compressed ones.
func TestEventsAreNotDelayed(t *testing.T) {
	for _, packed := range []bool{false, true} {
		seen := make(chan string)
		w := newWorld(t, false, func(rw http.ResponseWriter, r *http.Request) {
			out, flush := io.Writer(rw), func() {}
			if packed {
				z := gzip.NewWriter(rw)
				rw.Header().Set("Content-Encoding", "gzip")
				out, flush = z, func() { _ = z.Flush() }
				defer z.Close()
			}
			for i := range 5 {
				event := fmt.Sprintf("event: e%d\ndata: {\"key\":\"%s\"}\n\n", i, r.Header.Get("Authorization"))
				_, _ = io.WriteString(out, event)
				flush()
				rw.(http.Flusher).Flush()
				select { // the next is sent only after this one was seen
				case <-seen:
				case <-r.Context().Done():
					return
				}
			}
		}, nil)
		resp, err := w.do("GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(resp.Body)
		for i := range 5 {
			var event string
			for !strings.HasSuffix(event, "\n\n") {
				line, err := lines.ReadString('\n')
				if event += line; err != nil {
					t.Fatal(event, err)
				}
			}
			if !strings.HasPrefix(event, fmt.Sprintf("event: e%d\n", i)) || !strings.Contains(event, placeholder) || strings.Contains(event, value) {
				t.Errorf("came %q", event)
			}
			seen <- event
		}
		_ = resp.Body.Close()
	}
}

// TestC3Bodies checks that a body with a placeholder breaks off, and that the end of the
// placeholder does not leave.
func TestC3Bodies(t *testing.T) {
	packers := map[string]func([]byte) []byte{
		"": bytes.Clone, "gzip": packer(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"deflate":     packer(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"raw deflate": packer(func(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 6); return f }),
		"stored gzip": packer(func(w io.Writer) io.WriteCloser { z, _ := gzip.NewWriterLevel(w, 0); return z }),
	}
	bothProtocols(t, func(t *testing.T, h2 bool) {
		var mu sync.Mutex
		var got []byte
		whole := false
		w := newWorld(t, h2, func(rw http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			got, whole = b, err == nil
		}, nil)
		for coding, pack := range packers {
			for i, e := range encodings {
				if i > 0 && (coding != "" || h2) {
					break // the protocol and the compression know no encodings
				}
				for _, chunked := range []bool{false, true} {
					body := pack([]byte(strings.Repeat("x", 40000) + " " + e.do(placeholder2) + " " + strings.Repeat("y", 40000)))
					mu.Lock()
					got, whole = nil, false
					mu.Unlock()
					var r io.Reader = bytes.NewReader(body)
					if chunked {
						r = &smallReads{r}
					}
					_, name, _ := strings.Cut(" "+coding, " ")
					if i := strings.LastIndexByte(name, ' '); i >= 0 {
						name = name[i+1:]
					}
					resp, err := w.do("POST", "/", r, "Content-Encoding", name)
					if err == nil {
						_ = resp.Body.Close()
					}
					if errs := w.refusals(); len(errs) == 0 || refused(errs[len(errs)-1]) == nil {
						t.Fatalf("%s in %s (%t): %v, refused was %v", e.name, coding, chunked, err, errs)
					}
					w.mu.Lock()
					w.errs = nil
					w.mu.Unlock()
					mu.Lock()
					if whole || len(got) == len(body) || coding == "" && bytes.Contains(got, []byte(e.do(placeholder2))) {
						t.Errorf("%s in %s: the server got %d of %d bytes", e.name, coding, len(got), len(body))
					}
					mu.Unlock()
				}
			}
		}
	})
}

func packer(f func(io.Writer) io.WriteCloser) func([]byte) []byte {
	return func(b []byte) []byte {
		var out bytes.Buffer
		w := f(&out)
		_, _ = w.Write(b)
		_ = w.Close()
		return out.Bytes()
	}
}

// smallReads hides the length and returns odd pieces.
type smallReads struct{ r io.Reader }

func (s *smallReads) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), 37)]) }

// TestBodiesPass checks that bodies without a placeholder arrive unchanged.
func TestBodiesPass(t *testing.T) {
	var mu sync.Mutex
	var got []byte
	w := newWorld(t, false, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = b
	}, nil)
	plain := []byte(strings.Repeat("some text "+placeholder[:30]+" ", 30000))
	gz := packer(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	for name, tt := range map[string]struct {
		body   []byte
		coding string
		ok     bool
	}{
		"plain": {plain, "", true}, "empty": {nil, "", true}, "gzip": {gz(plain), "gzip", true}, "two members": {append(gz(plain), gz(plain)...), "gzip", true},
		"empty gzip": {gz(nil), "gzip", true}, "no gzip at all": {nil, "gzip", true}, "zlib": {packer(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })(plain), "deflate", true},
		"zlib with more behind": {append(packer(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })(plain), "more"...), "deflate", true},
		"unknown":               {plain, "zstd", true}, "broken gzip": {plain, "gzip", false}, "half a gzip": {gz(plain)[:len(gz(plain))/2], "gzip", false}, "a bomb": {gz(make([]byte, 80<<20)), "gzip", false},
	} {
		mu.Lock()
		got = nil
		mu.Unlock()
		resp, err := w.do("POST", "/", bytes.NewReader(tt.body), "Content-Encoding", tt.coding)
		if err != nil {
			t.Fatal(name, err)
		}
		_ = resp.Body.Close()
		mu.Lock()
		if (resp.StatusCode == http.StatusOK && bytes.Equal(got, tt.body)) != tt.ok {
			t.Errorf("%s: status %d, %d of %d bytes, %v", name, resp.StatusCode, len(got), len(tt.body), w.refusals())
		}
		mu.Unlock()
	}
}

// TestInflatedHoldsBack checks that text of a compressed upload leaves only after it was judged.
func TestInflatedHoldsBack(t *testing.T) {
	set := compile(t, lend(nil))
	text := []byte(strings.Repeat("Lorem ipsum dolor sit amet. ", 20) + placeholder + strings.Repeat(" consectetur", 9000))
	for name, pack := range map[string]func(io.Writer) io.WriteCloser{
		"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"stored":  func(w io.Writer) io.WriteCloser { z, _ := gzip.NewWriterLevel(w, 0); return z },
		"huffman": func(w io.Writer) io.WriteCloser { z, _ := gzip.NewWriterLevel(w, gzip.HuffmanOnly); return z },
	} {
		r := request(t, "POST", "https://other.example/", &smallReads{bytes.NewReader(packer(pack)(text))}, "Content-Encoding", "gzip")
		if _, err := set.Request(r, Target{Name: "other.example", Port: 443, Secure: true}, noon); err != nil {
			t.Fatal(err)
		}
		left, err := io.ReadAll(r.Body)
		if refused(err) == nil {
			t.Errorf("%s: %v", name, err)
		}
		z, err := gzip.NewReader(bytes.NewReader(left))
		if err != nil {
			continue // not even the header
		}
		if plain, _ := io.ReadAll(z); bytes.Contains(plain, []byte(placeholder)) {
			t.Errorf("%s: the placeholder left", name)
		}
	}
}

// TestInflatedHoldsNoMoreBack checks that compressed bytes without text are held back only up to a
// bound. A client may flush text as often as it likes.
func TestInflatedHoldsNoMoreBack(t *testing.T) {
	set := compile(t, lend(nil))
	sent := func(coding string, body io.Reader) ([]byte, error) {
		r := request(t, "POST", "https://other.example/", body, "Content-Encoding", coding)
		if _, err := set.Request(r, Target{Name: "other.example", Port: 443, Secure: true}, noon); err != nil {
			t.Fatal(err)
		}
		return io.ReadAll(r.Body)
	}
	gz := packer(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	for name, tt := range map[string]struct {
		coding      string
		first, then []byte
	}{
		"empty blocks":         {"deflate", nil, []byte{0, 0, 0, 0xff, 0xff}},
		"empty members":        {"gzip", nil, gz(nil)},
		"members after a text": {"gzip", gz([]byte("some text")), gz(nil)},
	} {
		body := &endless{first: tt.first, then: tt.then}
		if _, err := sent(tt.coding, io.LimitReader(body, 8<<20)); !errors.Is(err, spec.ErrDenied) || body.n > 2<<20 {
			t.Errorf("%s: %v, after %d bytes", name, err, body.n)
		}
	}
	flushed := packer(func(w io.Writer) io.WriteCloser {
		z, _ := flate.NewWriter(w, 6)
		for range 100_000 {
			_, _ = z.Write([]byte("x"))
			_ = z.Flush()
		}
		return z
	})(nil)
	if got, err := sent("deflate", bytes.NewReader(flushed)); err != nil || !bytes.Equal(got, flushed) {
		t.Errorf("%d of %d bytes passed: %v", len(got), len(flushed), err)
	}
}

// endless repeats itself, after another text.
type endless struct {
	first, then []byte
	n           int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n < len(e.first) {
		n := copy(p, e.first[e.n:])
		e.n += n
		return n, nil
	}
	n := copy(p, e.then[(e.n-len(e.first))%len(e.then):])
	e.n += n
	return n, nil
}

// TestInflatedHoldsBackCopies checks a placeholder whose end deflate wrote as a copy of much
// earlier bytes: the decompressor may return it only with the next piece.
func TestInflatedHoldsBackCopies(t *testing.T) {
	set := compile(t, lend(nil))
	random := rand.New(rand.NewPCG(7, 8))
	filler := make([]byte, 1<<15)
	for i := range filler {
		filler[i] = byte(random.Uint32())
	}
	const half = 20
	for shift := range len(placeholder) {
		text := append([]byte(placeholder[half:]), filler[:len(filler)-len(placeholder[half:])-shift]...)
		text = append(append(text, placeholder...), filler[:5000]...)
		packed := packer(func(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 9); return f })(text)
		r := request(t, "POST", "https://other.example/", bytes.NewReader(packed), "Content-Encoding", "deflate")
		if _, err := set.Request(r, Target{Name: "other.example", Port: 443, Secure: true}, noon); err != nil {
			t.Fatal(err)
		}
		left, err := io.ReadAll(r.Body)
		if refused(err) == nil {
			t.Fatal(err)
		}
		if plain, _ := io.ReadAll(flate.NewReader(bytes.NewReader(left))); bytes.Contains(plain, []byte(placeholder)) {
			t.Errorf("%d before the edge: the placeholder left", shift)
		}
	}
}

// FuzzInflated checks that of a compressed body only its beginning leaves, all of it only if it
// ends, and no text with a placeholder, wherever its sender has flushed.
func FuzzInflated(f *testing.F) {
	f.Add([]byte("some text"), []byte(" more"), uint16(0), uint8(3), uint8(6), uint16(40), byte(1))
	f.Add([]byte("ab"), []byte{}, uint16(500), uint8(0), uint8(0), uint16(9), byte(0))
	f.Add([]byte("text"), []byte("x"), uint16(10000), uint8(200), uint8(9), uint16(0), byte(255))
	set := compile(f, lend(nil))
	f.Fuzz(func(t *testing.T, before, behind []byte, often uint16, flush, level uint8, at uint16, change byte) {
		before = bytes.Repeat(before, min(1+int(often), 1+40000/(1+len(before))))
		var out bytes.Buffer
		z, _ := flate.NewWriter(&out, int(level%10))
		for i, c := range slices.Concat(before, []byte(placeholder), behind) {
			_, _ = z.Write([]byte{c})
			if flush > 0 && i%int(flush) == 0 {
				_ = z.Flush()
			}
		}
		_ = z.Close()
		packed := out.Bytes()
		packed[int(at)%len(packed)] ^= change
		r := request(t, "POST", "https://other.example/", &smallReads{bytes.NewReader(packed)}, "Content-Encoding", "deflate")
		if _, err := set.Request(r, Target{Name: "other.example", Port: 443, Secure: true}, noon); err != nil {
			t.Fatal(err)
		}
		left, err := io.ReadAll(r.Body)
		if !bytes.HasPrefix(packed, left) || err == nil && len(left) != len(packed) {
			t.Fatalf("%d of %d bytes left: %v", len(left), len(packed), err)
		}
		if plain, _ := io.ReadAll(flate.NewReader(bytes.NewReader(left))); bytes.Contains(plain, []byte(placeholder)) {
			t.Errorf("the placeholder left in %d of %d bytes: %v", len(left), len(packed), err)
		}
	})
}

// TestTrailersOfClosedBodies checks that trailers that come when the body is closed are masked too.
func TestTrailersOfClosedBodies(t *testing.T) {
	set := compile(t, lend(nil))
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	resp.Body = late{strings.NewReader("x"), func() { resp.Trailer = http.Header{"X-End": {value}} }}
	if err := set.Response(resp, api); err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.Trailer.Get("X-End") != placeholder {
		t.Errorf("%v, %v", resp.Trailer, err)
	}
}

type late struct {
	io.Reader
	end func()
}

func (l late) Close() error {
	l.end()
	return nil
}

func TestTrailersAreScanned(t *testing.T) {
	set := compile(t, lend(nil))
	r := request(t, "POST", "https://other.example/", strings.NewReader("body"))
	r.Trailer = http.Header{"X-End": {"a " + placeholder}}
	if _, err := set.Request(r, Target{Name: "other.example", Port: 443, Secure: true}, noon); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r.Body); refused(err) == nil || refused(err).Where != "trailer X-End" {
		t.Error(err)
	}
}

// TestWhatArrives checks over the wire that the arriving head has the value, and no credential of
// the client (C11, C1).
func TestWhatArrives(t *testing.T) {
	bothProtocols(t, func(t *testing.T, h2 bool) {
		w := newWorld(t, h2, func(http.ResponseWriter, *http.Request) {}, nil)
		w.get("/?key=own&a=1", "X-Api-Key", "own", "Cookie", "s=own", "X-Note", "kept", "Range", "bytes=0-1")
		got := w.reached()
		if want := map[bool]string{true: "HTTP/2.0 ", false: "HTTP/1.1 "}[h2]; !strings.HasPrefix(got, want) || strings.Contains(got, "own") || strings.Contains(got, "Range") ||
			!strings.Contains(got, "Authorization: Bearer "+value+"\r\n") || !strings.Contains(got, "X-Note: kept") {
			t.Errorf("arrived %s", got)
		}
	})
}

// TestRefusedNeverArrives checks that nothing is exchanged for another host, over the wire.
func TestRefusedNeverArrives(t *testing.T) {
	bothProtocols(t, func(t *testing.T, h2 bool) {
		w := newWorld(t, h2, func(http.ResponseWriter, *http.Request) {}, func(l *wire.Loan) { l.Hosts = []string{"api.example.com"} })
		if got := w.get("/"); !strings.HasPrefix(got, "502") || w.reached() != "" {
			t.Errorf("came back %s, arrived %s", got, w.reached())
		}
		if errs := w.refusals(); len(errs) != 1 || !errors.Is(errs[0], spec.ErrDenied) {
			t.Error(errs)
		}
	})
}

// TestConcurrent checks that one set serves many requests at once.
func TestConcurrent(t *testing.T) {
	w := newWorld(t, true, func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, r.Header.Get("Authorization")) }, nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 5 {
				if got := w.get("/"); strings.Contains(got, value) || !strings.Contains(got, placeholder) {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
}

// frame writes a WebSocket frame.
func frame(head byte, payload string, key []byte) []byte {
	b := []byte{head}
	m := byte(0)
	if key != nil {
		m = 128
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, m|byte(n))
	case n < 1<<16:
		b = append(b, m|126, byte(n>>8), byte(n))
	default:
		b = append(b, m|127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	b = append(b, key...)
	for i := range len(payload) {
		c := payload[i]
		if key != nil {
			c ^= key[i&3]
		}
		b = append(b, c)
	}
	return b
}

var key = []byte{0x37, 0xfa, 0x21, 0x3d}

// TestWebSocket checks a WebSocket end to end: the handshake has the value, messages from outside
// are masked, and a message with a placeholder ends it.
func TestWebSocket(t *testing.T) {
	received := make(chan []byte, 1)
	w := newWorld(t, false, func(rw http.ResponseWriter, r *http.Request) {
		conn, buf, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if r.Header.Get("Authorization") != "Bearer "+value || len(r.Header.Values("Sec-WebSocket-Extensions")) > 0 {
			t.Errorf("handshake with %v", r.Header)
		}
		_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Echo: " + value + "\r\n\r\n")
		_, _ = buf.Write(frame(opText, "key "+value[:20], nil))
		_, _ = buf.Write(frame(0x80|9, "ping "+value, nil))
		_, _ = buf.Write(frame(0x80|opContinue, value[20:]+" end", nil))
		_ = buf.Flush()
		all, _ := io.ReadAll(buf)
		received <- all
	}, nil)
	addr := strings.TrimPrefix(w.gateway.URL, "https://")
	dialer := tls.Dialer{Config: w.client.Transport.(*http.Transport).TLSClientConfig.Clone()}
	dialer.Config.NextProtos = nil
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\nAuthorization: Bearer %s\r\n\r\n", addr, placeholder)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("X-Echo") != placeholder {
		t.Fatalf("%v, %v", resp, err)
	}
	defer resp.Body.Close()
	want := string(frame(opText, "key "+placeholder[:20], nil)) + string(frame(0x80|9, "ping "+placeholder, nil)) + string(frame(0x80|opContinue, placeholder[20:]+" end", nil))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in, got); err != nil || string(got) != want {
		t.Fatalf("came %q, %v", got, err)
	}
	hello := frame(0x80|opText, "hello", key)
	_, _ = conn.Write(hello)
	bad := frame(0x80|opText, "take "+placeholder+" away", key)
	for _, b := range bad {
		if _, err := conn.Write([]byte{b}); err != nil {
			break
		}
	}
	_, _ = io.ReadAll(in) // the gateway hangs up
	if all := <-received; !bytes.HasPrefix(all, hello) || len(all) >= len(hello)+len(bad)-len(" away") {
		t.Errorf("the server got %q", all)
	}
}

// pipe is a connection with one controlled side.
type pipe struct {
	io.Reader
	bytes.Buffer
}

func (p *pipe) Read(b []byte) (int, error)  { return p.Reader.Read(b) }
func (p *pipe) Write(b []byte) (int, error) { return p.Buffer.Write(b) }
func (p *pipe) Close() error                { return nil }

// TestWebSocketSplits checks that frames in any split give the same result.
func TestWebSocketSplits(t *testing.T) {
	set := compile(t, lend(nil))
	long := strings.Repeat("z", 70000)
	in := string(frame(opText, "a "+value[:5], nil)) + string(frame(opContinue, "", nil)) + string(frame(0x80|10, "", nil)) + string(frame(opContinue, value[5:], nil)) + string(frame(0x80|opContinue, " b", nil)) +
		string(frame(0x80|opBinary, "s", nil)) + string(frame(0x80|opText, long+value, nil)) + string(frame(0x80|opClose, "\x03\xe8bye "+value, nil))
	want := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(in, value, placeholder), value[:5], placeholder[:5]), value[5:], placeholder[5:])
	for _, size := range []int{1, 2, 3, 7, 1000, 1 << 20} {
		ws := set.WebSocket(&pipe{Reader: &pieces{[]byte(in), size}})
		got, err := io.ReadAll(ws)
		if err != nil || string(got) != want && size > 1000 || len(got) != len(want) || strings.Contains(string(got), value) {
			t.Errorf("in pieces of %d: %d of %d bytes, %v", size, len(got), len(want), err)
		}
	}
	out := string(frame(opText, "fine", key)) + string(frame(0x80|9, "p", key)) + string(frame(0x80|opContinue, long, key)) + string(frame(0x80|opText, "", key))
	for _, size := range []int{1, 3, 1 << 20} {
		p := &pipe{}
		ws := set.WebSocket(p)
		for b := []byte(out); len(b) > 0; b = b[min(size, len(b)):] {
			if _, err := ws.Write(b[:min(size, len(b))]); err != nil {
				t.Fatal(size, err)
			}
		}
		if p.String() != out {
			t.Errorf("in pieces of %d: sent otherwise", size)
		}
	}
	split := string(frame(opText, "x"+placeholder[:9], key)) + string(frame(0x80|9, "p", key)) + string(frame(0x80|opContinue, placeholder[9:], key))
	for _, size := range []int{1, 3, 1 << 20} {
		ws := set.WebSocket(&pipe{})
		var err error
		for b := []byte(split); len(b) > 0 && err == nil; b = b[min(size, len(b)):] {
			_, err = ws.Write(b[:min(size, len(b))])
		}
		if refused(err) == nil {
			t.Errorf("in pieces of %d: %v", size, err)
		}
	}
}

type pieces struct {
	b    []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.b)
	p.b = p.b[n:]
	return n, nil
}

// TestWebSocketNotDelayed checks that a message whose last byte may begin a value arrives whole at
// once.
func TestWebSocketNotDelayed(t *testing.T) {
	set := compile(t, lend(func(l *wire.Loan) { l.Value = wire.Value("password1") })) // too short to reveal any byte
	near, far := net.Pipe()
	defer near.Close()
	ws := set.WebSocket(near)
	go func() { _, _ = far.Write(frame(0x80|opText, "my passw", nil)) }()
	got := make([]byte, 10)
	if _, err := io.ReadFull(ws, got); err != nil || string(got[2:]) != "my passw" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestBrokenFrames(t *testing.T) {
	set := compile(t, lend(nil))
	for name, f := range map[string][]byte{
		"compressed": frame(0xc0|opText, "x", key), "reserved bit": frame(0x90|opText, "x", key), "unknown opcode": frame(0x83, "x", key), "unknown control": frame(0x8b, "x", key),
		"control in pieces": frame(9, "x", key), "long control": frame(0x89, strings.Repeat("x", 126), key), "continues nothing": frame(0x80, "x", key),
		"begins within": append(frame(opText, "x", key), frame(opText, "x", key)...), "endless": {0x82, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		if _, err := set.WebSocket(&pipe{}).Write(f); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s to the server: %v", name, err)
		}
		f = bytes.Clone(f)
		f[1] &^= 128
		if name == "begins within" {
			f = append(frame(opText, "x", nil), frame(opText, "x", nil)...)
		}
		if _, err := io.ReadAll(set.WebSocket(&pipe{Reader: bytes.NewReader(f)})); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s from the server: %v", name, err)
		}
	}
	if _, err := set.WebSocket(&pipe{}).Write(frame(0x80|opText, "x", nil)); !errors.Is(err, spec.ErrDenied) {
		t.Error("not masked:", err)
	}
	if _, err := io.ReadAll(set.WebSocket(&pipe{Reader: bytes.NewReader(frame(0x80|opText, "x", key))})); !errors.Is(err, spec.ErrDenied) {
		t.Error("masked:", err)
	}
	many := frame(opText, value[:9], nil)
	for range maxQueue + 1 {
		many = append(many, frame(opContinue, "", nil)...)
	}
	if _, err := io.ReadAll(set.WebSocket(&pipe{Reader: bytes.NewReader(many)})); !errors.Is(err, spec.ErrDenied) {
		t.Error("many pieces:", err)
	}
}

// FuzzFrames checks that any input passes unchanged or not at all.
func FuzzFrames(f *testing.F) {
	f.Add(append(frame(opText, "a", nil), frame(0x80, "b", nil)...), uint8(3))
	f.Add(frame(0x89, "ping", key), uint8(1))
	set := compile(f, lend(nil))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		if bytes.Contains(in, []byte(value[4:])) {
			t.Skip("it holds the value, which is to be changed: FuzzWebSocket is about that")
		}
		got, err := io.ReadAll(set.WebSocket(&pipe{Reader: &pieces{bytes.Clone(in), 1 + int(size)}}))
		if !bytes.HasPrefix(in, got) && !errors.Is(err, spec.ErrDenied) {
			t.Fatalf("%q became %q, %v", in, got, err)
		}
		p := &pipe{}
		ws := set.WebSocket(p)
		for b := in; len(b) > 0; b = b[min(1+int(size), len(b)):] {
			if _, err := ws.Write(b[:min(1+int(size), len(b))]); err != nil {
				break
			}
		}
		if !bytes.HasPrefix(in, p.Bytes()) {
			t.Fatal("sent otherwise")
		}
	})
}

// FuzzWebSocket checks that a value in a message is masked however it is cut into frames, and that
// a placeholder is found.
func FuzzWebSocket(f *testing.F) {
	f.Add([]byte("around"), uint8(3), uint8(20), uint8(1))
	set := compile(f, lend(nil))
	f.Fuzz(func(t *testing.T, around []byte, first, second, size uint8) {
		build := func(secret string, key []byte) (all []byte, parts []string) {
			at := int(first) % (len(around) + 1)
			message := string(around[:at]) + secret + string(around[at:])
			i := int(first) % (len(message) + 1)
			j := i + int(second)%(len(message)-i+1)
			parts = []string{message[:i], message[i:j], message[j:]}
			all = append(frame(opText, parts[0], key), frame(0x80|9, "ping", key)...)
			all = append(append(all, frame(opContinue, parts[1], key)...), frame(0x80|opContinue, parts[2], key)...)
			return all, parts
		}
		in, parts := build(value, nil)
		got, err := io.ReadAll(set.WebSocket(&pipe{Reader: &pieces{bytes.Clone(in), 1 + int(size)}}))
		if err != nil || len(got) != len(in) {
			t.Fatalf("%q became %q, %v", in, got, err)
		}
		message := ""
		at := 0
		for n, p := range parts {
			at += len(frame(0, p, nil)) - len(p)
			message += string(got[at : at+len(p)])
			if at += len(p); n == 0 {
				at += len(frame(0, "ping", nil))
			}
		}
		if strings.Contains(message, value) || !strings.Contains(message, placeholder[1:]) {
			t.Fatalf("the message became %q", message)
		}
		out, _ := build(placeholder, key)
		ws := set.WebSocket(&pipe{})
		for b := out; len(b) > 0; b = b[min(1+int(size), len(b)):] {
			if _, err := ws.Write(b[:min(1+int(size), len(b))]); err != nil {
				return
			}
		}
		t.Fatal("the placeholder was not found")
	})
}

// TestTunnel checks that an upgrade to any other protocol is searched as bytes.
func TestTunnel(t *testing.T) {
	set := compile(t, lend(nil))
	resp := &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: http.Header{"Upgrade": {"x"}}, Body: &pipe{Reader: strings.NewReader("a " + value + " b")}}
	if err := set.Response(resp, api); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "a "+placeholder+" b" {
		t.Errorf("%q, %v", got, err)
	}
	conn := resp.Body.(io.Writer)
	if _, err := conn.Write([]byte("x " + placeholder[:10])); err != nil {
		t.Error(err)
	}
	if _, err := conn.Write([]byte(placeholder[10:])); refused(err) == nil {
		t.Error(err)
	}
	for name, resp := range map[string]*http.Response{
		"no way back": {StatusCode: http.StatusSwitchingProtocols, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))},
		"extensions":  {StatusCode: http.StatusSwitchingProtocols, Header: http.Header{"Sec-Websocket-Extensions": {"permessage-deflate"}}, Body: &pipe{}},
	} {
		if err := set.Response(resp, api); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEmptySet checks that without loans nothing changes and nothing is allocated.
func TestEmptySet(t *testing.T) {
	var s *Set
	r := request(t, "GET", "https://api.example.com/", strings.NewReader("x"), "Authorization", "Bearer "+placeholder)
	resp := &http.Response{Header: http.Header{}, Body: io.NopCloser(strings.NewReader(value))}
	body, answer := r.Body, resp.Body
	if n := testing.AllocsPerRun(10, func() {
		if _, err := s.Request(r, api, noon); err != nil {
			t.Error(err)
		}
		if err := s.Response(resp, api); err != nil {
			t.Error(err)
		}
		s.Header(resp.Header)
	}); n != 0 || r.Body != body || resp.Body != answer {
		t.Errorf("%v allocations", n)
	}
	if got := s.Mask(value); got != value {
		t.Error(got)
	}
	if err := s.Scanner().Feed([]byte(placeholder)); err != nil {
		t.Error(err)
	}
	conn := &pipe{}
	if s.WebSocket(conn) != io.ReadWriteCloser(conn) {
		t.Error("a WebSocket is looked into")
	}
}
