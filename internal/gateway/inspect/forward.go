package inspect

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/gateway/inspect/form"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/http1"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/spec"
)

// forward sends an allowed request, and passes on the answer.
func (i *Inspector) forward(ctx context.Context, w *answer, r *http.Request, x *exchange) {
	in := r
	if r.Body != nil && r.Body != http.NoBody {
		r = r.WithContext(ctx)
		r.Body = &body{
			ReadCloser: r.Body, x: x, limit: x.decision.MaxBody, trailer: r.Trailer, announced: slices.Collect(maps.Keys(r.Trailer)),
			sent: i.conf.Sent, form: form.New(in), asks: func() (int64, error) { return i.asksInBody(x) },
		}
		tellContinue(w, r)
	}
	if i.renewed(ctx, w, r, x) {
		return
	}
	captured := i.captures(r, x)
	r, ok := i.lendSecrets(ctx, w, r, x)
	if !ok {
		return
	}
	out := outgoing(ctx, r)
	if i.conf.Named != nil {
		if name := i.conf.Named(x.conn.host); name != "" {
			out.Host = net.JoinHostPort(name, strconv.Itoa(int(x.conn.host.Port)))
		}
	}
	if x.bill.tally != nil {
		out.Header["Accept-Encoding"] = []string{"identity"} // so that the answer can be read
		maps.DeleteFunc(out.Header, func(name string, _ []string) bool { return strings.EqualFold(name, "Sec-WebSocket-Extensions") })
	}
	if captured {
		out.Header["Accept-Encoding"] = []string{"identity"}
	}
	resp, err := i.up.RoundTrip(ctx, x.conn.host, out, &x.trip)
	if err != nil && ctx.Err() == nil && x.endGRPC(in, err) {
		return
	}
	if err != nil {
		x.bill.left = ctx.Err() != nil
		i.failed(ctx, w, in, x, err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	from, _ := resp.Body.(*upstream.AnswerBody)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		removeHops(resp.Header)
	}
	if captured && i.capture(ctx, w, in, x, resp) {
		return
	}
	if err := i.answered(resp, x); err != nil {
		i.failed(ctx, w, in, x, err)
		return
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if !x.change(ctx, w, resp) {
			i.failed(ctx, w, in, x, errProtocol)
		}
		return
	}
	if err := passAnswer(w, resp, from); err != nil {
		x.bill.broken = true
		if !x.endGRPC(in, err) && !i.endSpent(in, x) {
			x.broken(ctx)
		}
	}
}

// hops are the header fields that belong to a connection, not to its requests.
var hops = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func removeHops(h http.Header) {
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.Trim(name, " \t"); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hops {
		delete(h, name)
	}
}

// outgoing returns a request as it is sent on. All but the connection's own fields stay as they
// were judged.
func outgoing(ctx context.Context, r *http.Request) *http.Request {
	out := r.WithContext(ctx)
	if r.ContentLength == 0 || r.Body == http.NoBody {
		out.Body = nil
	}
	out.Close = false
	out.Header = maps.Clone(r.Header)
	removeHops(out.Header)
	if slices.Contains(http1.Words(r.Header["Te"]), "trailers") {
		out.Header["Te"] = []string{"trailers"}
	}
	if to := r.Header.Get("Upgrade"); to != "" && slices.Contains(http1.Words(r.Header["Connection"]), "upgrade") {
		out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{to}
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // none of net/http's own
	}
	return out
}

// tellContinue tells a waiting client to send the body of an allowed request. net/http's server would do so
// by itself when the body is read, but not in step with other interim answers, which are passed on
// meanwhile.
func tellContinue(w *answer, r *http.Request) {
	if r.ProtoMajor == 1 && slices.Contains(http1.Words(r.Header["Expect"]), "100-continue") {
		w.ResponseWriter.WriteHeader(http.StatusContinue)
	}
}

// Reached notes the address that answers.
func (x *exchange) Reached(addr netip.Addr) { x.record.Addr = addr }

// maxInterim bounds the interim answers of a server.
const maxInterim = 100

var errInterim = errors.New("interim answers without end")

// Interim passes on an interim answer.
func (x *exchange) Interim(status int, header http.Header) error {
	if x.interims++; x.interims > maxInterim {
		return errInterim
	}
	h := x.w.Header()
	maps.Copy(h, header)
	x.w.WriteHeader(status)
	clear(h)
	return nil
}

// answered looks at an answer before it is passed on.
func (i *Inspector) answered(resp *http.Response, x *exchange) error {
	x.bare = resp.ContentLength == 0 && len(resp.Trailer) == 0
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if x.request.Upgrade == "" || !strings.EqualFold(x.request.Upgrade, resp.Header.Get("Upgrade")) {
			return errProtocol
		}
	}
	if err := x.holdAnswer(resp); err != nil {
		return err
	}
	i.rejected(resp, x)
	if err := x.secrets.Response(resp, i.target(x.conn.host)); err != nil {
		return err
	}
	if len(resp.Trailer) > 0 && x.record.Protocol != http2 {
		resp.Header.Del("Content-Length") // over HTTP/1 only a body in chunks has trailers
	}
	return nil
}

// passAnswer passes an answer on. from is its body if it was read from a link; resp.Body may mask it.
func passAnswer(w *answer, resp *http.Response, from *upstream.AnswerBody) error {
	h := w.Header()
	maps.Copy(h, resp.Header)
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // net/http must not guess a type
	}
	announced := len(resp.Trailer)
	if announced > 0 {
		h["Trailer"] = []string{strings.Join(slices.Sorted(maps.Keys(resp.Trailer)), ", ")}
	}
	w.WriteHeader(resp.StatusCode)
	if resp.Body != http.NoBody {
		if err := copyBody(w, resp, from); err != nil {
			return err
		}
		_ = resp.Body.Close() // the trailers are there
	}
	if len(resp.Trailer) == announced {
		maps.Copy(h, resp.Trailer)
		return nil
	}
	for name, values := range resp.Trailer {
		h[http.TrailerPrefix+name] = values
	}
	return nil
}

// copyBody passes a body on, every piece as soon as it arrives. It waits for bytes that it knows to
// have arrived already, so that a small answer is sent at once.
func copyBody(w *answer, resp *http.Response, from *upstream.AnswerBody) error {
	buf := http1.NewBuffer()
	defer http1.PutBuffer(buf)
	soon := func() bool { return false }
	switch {
	case from == nil:
	case resp.Body == from:
		soon = from.ComesSoon
	default: // a masked body is held back, unless all of it has arrived
		soon = from.IsComplete
	}
	flushed := soon()
	for {
		if !flushed {
			if err := w.flushAnswer(); err != nil {
				return err
			}
		}
		n, err := resp.Body.Read(*buf)
		if n > 0 {
			if _, err := w.Write((*buf)[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		flushed = n == 0 || soon()
	}
}

// broken cuts a connection whose answer broke off, so that the answer does not look complete. Over
// HTTP/2 it cuts only the stream.
func (x *exchange) broken(ctx context.Context) {
	x.record.Verdict, x.record.Reason = spec.VerdictError, "the answer broke off"
	if ctx.Err() != nil {
		x.record.Reason = errHungUp.Error()
	}
	if x.record.Protocol == http2 {
		panic(http.ErrAbortHandler)
	}
	x.conn.Reset()
}

// http2 is the protocol's name in a record.
const http2 = "HTTP/2.0"

// change passes on the server's switch to another protocol, and then all bytes in both directions.
// It returns false if the client cannot switch.
func (x *exchange) change(ctx context.Context, w *answer, resp *http.Response) bool {
	inside, ok := w.ResponseWriter.(*reply)
	server, isRaw := resp.Body.(io.ReadWriteCloser)
	if !ok || !isRaw {
		return false
	}
	said := io.Reader(server)
	if meter := x.bill.upgraded(resp.Header.Get("Upgrade")); meter != nil {
		said = io.TeeReader(server, meter)
	}
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	client, err := inside.hijack()
	if err != nil {
		x.broken(ctx)
		return true
	}
	end := sync.OnceFunc(func() { _, _ = client.Close(), server.Close() })
	carry := func(to io.Writer, from io.Reader) {
		_, err := io.Copy(to, from)
		if c, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
			err = c.CloseWrite()
		} else if err == nil {
			err = errDone
		}
		if err != nil {
			end()
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { carry(server, client) })
	wg.Go(func() { carry(client, said) })
	wg.Wait()
	end()
	return true
}

// errDone ends a changed connection if one direction cannot be closed alone.
var errDone = errors.New("the other side has ended")
