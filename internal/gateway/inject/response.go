package inject

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// Response masks an answer of a target: its header at once, the rest as it is read. The body of a
// 101 becomes one whose other direction is scanned. The error, of class [spec.ErrDenied], reports
// an answer that cannot be inspected; the caller must not pass it on.
func (s *Set) Response(resp *http.Response, to Target) error {
	if s == nil {
		return nil
	}
	s.Header(resp.Header)
	resp.Status = s.Mask(resp.Status)
	bound := s.hasHost(to)
	if bound {
		if err := s.checkWhole(resp); err != nil {
			return err
		}
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return s.upgraded(resp)
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil
	}
	r := s.Masker(resp.Body)
	switch c := coding(resp.Header); {
	case c == "" && bound && s.values != nil:
		r = &packed{set: s, body: resp.Body}
	case c == "": // as it is
	case !bound:
		r = resp.Body // no value was sent there
	default:
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
		plain := &plainBody{r: bufio.NewReader(resp.Body), coding: c}
		r = s.Masker(plain)
		if s.values != nil {
			r = &packed{set: s, body: io.NopCloser(plain)} // an archive, compressed once more
		}
	}
	resp.Body = &answer{r: r, body: resp.Body, end: func() { s.Header(resp.Trailer) }}
	return nil
}

// checkWhole refuses answers in a form that was not asked for and could not be masked.
func (s *Set) checkWhole(resp *http.Response) error {
	fail := func(what string) error {
		return spec.Errorf(spec.ErrDenied, "the answer %s, so secrets in it could not be masked", what)
	}
	h := resp.Header
	h.Del("Accept-Ranges")
	for _, name := range []string{"Grpc-Encoding", "Connect-Content-Encoding"} {
		for _, v := range h.Values(name) {
			if !strings.EqualFold(v, "identity") {
				return fail("has compressed messages, " + name + " " + strconv.QuoteToASCII(v))
			}
		}
	}
	switch {
	case coding(h) == "other":
		return fail("has the content encoding " + strconv.QuoteToASCII(strings.Join(h.Values("Content-Encoding"), ", ")))
	case resp.StatusCode == http.StatusPartialContent || h.Get("Content-Range") != "" && resp.StatusCode != http.StatusRequestedRangeNotSatisfiable:
		return fail("is a part of one")
	case resp.StatusCode == http.StatusIMUsed:
		return fail("is a difference to another one")
	case resp.StatusCode == http.StatusSwitchingProtocols && len(h.Values("Sec-WebSocket-Extensions")) > 0:
		return fail("has WebSocket extensions")
	}
	return nil
}

// Header masks a header or trailer in place: of an informational answer, say.
func (s *Set) Header(h http.Header) {
	if s == nil || s.values == nil || len(h) == 0 {
		return
	}
	var t text
	for name, values := range h {
		t.header("", name, values)
	}
	if s.values.findNeedle(t.all) != nil {
		for _, values := range h {
			for i, v := range values {
				values[i] = s.values.maskText(v)
			}
		}
	}
	for name := range h { // names have the case of no value
		for _, l := range s.loans {
			for _, v := range l.values() {
				if len(name) >= len(v) && strings.Contains(strings.ToLower(name), strings.ToLower(v)) {
					delete(h, name)
				}
			}
		}
	}
}

// answer is a masked body. Its trailers are there when it was read to the end or
// closed.
type answer struct {
	r    io.Reader
	body io.Closer
	end  func()
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if err == io.EOF {
		a.end()
	}
	return n, err
}

func (a *answer) Close() error {
	err := a.body.Close()
	a.end()
	return err
}

// upgraded searches the stream after a 101 in both directions.
func (s *Set) upgraded(resp *http.Response) error {
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		return spec.Errorf(spec.ErrDenied, "the answer changes the protocol, but the server cannot be written to")
	}
	if strings.EqualFold(resp.Header.Get("Upgrade"), "websocket") {
		resp.Body = s.WebSocket(conn)
		return nil
	}
	resp.Body = &tunnel{Reader: s.Masker(conn), ReadWriteCloser: conn, scan: s.Scanner()}
	return nil
}

// tunnel is a stream of an unknown protocol.
type tunnel struct {
	io.Reader
	io.ReadWriteCloser
	scan *Scanner
}

func (t *tunnel) Read(p []byte) (int, error) { return t.Reader.Read(p) }

func (t *tunnel) Write(p []byte) (int, error) {
	if err := t.scan.Feed(p); err != nil {
		return 0, err
	}
	return t.ReadWriteCloser.Write(p)
}
