package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/strict"
	"github.com/bothy-dev/bothy/internal/gateway/rpc"
	"github.com/bothy-dev/bothy/internal/policy/rpccall"
)

// Limits of bodies that are read as a whole before anything is sent, because their calls have to be
// judged.
const (
	maxCalls  = 1 << 20          // bytes of one
	callsRoom = 16 << 20         // of all at once, of a sandbox
	callsTime = 30 * time.Second // until all of one is there
	callsSend = 2 * time.Minute  // from then on, until its server has all of it
	// callsBegin is taken at first, and then twice as much: an announced length does not justify
	// taking more than has arrived.
	callsBegin = 4 << 10
)

var (
	errCallsLong   = errors.New("a body whose calls have to be judged has more than 1 MiB")           // maxCalls
	errCallsLate   = errors.New("a body whose calls have to be judged is not there after 30 seconds") // callsTime
	errCallsUnsent = errors.New("the server does not take a body whose calls were judged")
	errCallsFull   = errors.New("too many bodies have to be judged at once: try again")
	errCallsBody   = errors.New("the body breaks off")
)

// called reads the body of a request, and judges the request by the JSON-RPC calls in it. It
// returns the request to send, with the very bytes that were judged, and a function to call when
// that is over. It returns nil if the request was answered.
func (i *Inspector) called(ctx context.Context, w *answer, r *http.Request, x *exchange) (*http.Request, func()) {
	body, done, err := i.wholeBody(ctx, w, r)
	if err != nil {
		i.uncalled(ctx, w, r, x, err)
		return nil, nil
	}
	calls, err := rpc.Read(body)
	if err == nil {
		err = headsAgree(r.Header, calls)
	}
	if err != nil {
		done()
		i.uncalled(ctx, w, r, x, err)
		return nil, nil
	}
	x.record.RPC = x.secrets.Mask(rpccall.Text(calls))
	x.request.RPC, x.request.Body = calls, int64(len(body))
	i.judgeExchange(x)
	late := time.AfterFunc(i.sendTime, func() { x.cancel(errCallsUnsent) })
	over := func() { late.Stop(); done() }
	return judged(r, body, over), over
}

// wholeBody reads a body, if it can be judged and memory is left for it. The returned function
// gives the memory back.
func (i *Inspector) wholeBody(ctx context.Context, w *answer, r *http.Request) ([]byte, func(), error) {
	if err := readable(r); err != nil {
		return nil, nil, err
	}
	tellContinue(w, r)
	hold := i.room.Hold()
	body, err := readCalls(ctx, r, hold, i.readTime)
	if err != nil {
		hold.Release()
		return nil, nil, err
	}
	return body, hold.Release, nil
}

// uncalled answers a request whose calls could not be judged.
func (i *Inspector) uncalled(ctx context.Context, w *answer, r *http.Request, x *exchange, err error) {
	w.unread()
	switch {
	case x.malformed() != nil:
		i.failed(ctx, w, r, x, err)
	case errors.Is(err, errCallsLong):
		i.turnAway(w, r, x, http.StatusRequestEntityTooLarge, err)
	case errors.Is(err, errCallsLate):
		i.turnAway(w, r, x, http.StatusRequestTimeout, err)
	case errors.Is(err, errCallsFull):
		i.turnAway(w, r, x, http.StatusServiceUnavailable, err)
	default:
		i.turnAway(w, r, x, http.StatusForbidden, err)
	}
}

// unread ends the connection after an answer if the rest of the request's body is not read: the
// client must know that before it asks again.
func (a *answer) unread() {
	if one, ok := a.ResponseWriter.(*reply); ok && one.body.begun.Load() && !one.body.ended.Load() {
		one.last = true
	}
}

// readable refuses bodies that a server may read in another way than as one JSON document in UTF-8.
func readable(r *http.Request) error {
	if r.ContentLength > maxCalls {
		return errCallsLong
	}
	kinds := r.Header["Content-Type"]
	if len(kinds) != 1 {
		return errors.New("a body whose calls have to be judged must have one Content-Type: application/json")
	}
	kind, with, err := mime.ParseMediaType(kinds[0])
	charset, said := with["charset"]
	switch {
	case err != nil || kind != "application/json" || len(with) > 1 || len(with) == 1 && !said || said && !strings.EqualFold(charset, "utf-8"):
		return errors.New("a body whose calls have to be judged must be application/json, in UTF-8")
	case len(r.Header["Content-Encoding"]) > 0:
		return errors.New("a body whose calls have to be judged must not be encoded: leave Content-Encoding out")
	case len(r.Trailer) > 0:
		return errors.New("a body whose calls have to be judged must not have trailers")
	}
	return nil
}

// within makes reading a body fail with err when a context ends, or after some time. The returned
// function has to be called when the body was read.
func within(ctx context.Context, d time.Duration, err error, body io.Closer) (context.Context, func()) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, err)
	stop := context.AfterFunc(ctx, func() { _ = body.Close() })
	return ctx, func() { stop(); cancel() }
}

// readCalls reads all of a body within the time given for it.
func readCalls(ctx context.Context, r *http.Request, hold *held.Hold, patience time.Duration) ([]byte, error) {
	ctx, over := within(ctx, patience, errCallsLate, r.Body)
	defer over()
	most := int64(maxCalls) + 1 // one more than there may be, so that its end is seen
	if r.ContentLength >= 0 {
		most = r.ContentLength + 1
	}
	var body []byte
	for {
		if len(body) == cap(body) {
			size := min(max(2*int64(cap(body)), callsBegin), most)
			if hold.Take(size-int64(cap(body))) != nil {
				return nil, errCallsFull
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case int64(len(body)) >= most:
			return nil, errCallsLong
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, errCallsBody
		}
	}
}

// headsAgree compares a request's head with its body where both name the call: MCP has header
// fields for proxies that do not read bodies.
func headsAgree(h http.Header, calls []string) error {
	method, tool, _ := strings.Cut(calls[0], " ")
	for name, values := range h {
		want := ""
		switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
		case "mcp-method":
			want = method
		case "mcp-name":
			if want = tool; method != rpccall.ToolCall {
				continue // it names something that no rule is about
			}
		default:
			continue
		}
		if len(calls) != 1 || method == rpccall.Answer || len(values) != 1 || values[0] != want {
			return fmt.Errorf("the field %s says something else than the body", strict.Clip(name))
		}
	}
	return nil
}

// judged returns a request with the body that was judged.
func judged(r *http.Request, body []byte, done func()) *http.Request {
	out := *r
	out.Header = maps.Clone(r.Header)
	delete(out.Header, "Expect") // it has been answered
	out.Body = &judgedBody{rest: body, done: done}
	out.ContentLength, out.TransferEncoding, out.Trailer = int64(len(body)), nil, nil
	return &out
}

// judgedBody gives its memory back as soon as it was sent.
type judgedBody struct {
	rest []byte
	done func()
}

func (b *judgedBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		b.rest = nil
		b.done()
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *judgedBody) Close() error { return nil }
