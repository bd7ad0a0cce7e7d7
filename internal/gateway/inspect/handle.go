package inspect

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/form"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/http1"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/strict"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/override"
	"github.com/bothy-dev/bothy/spec"
)

// exchange is a request and its answer.
type exchange struct {
	conn     *conn
	w        *answer
	trip     upstream.Trip // to its server
	request  policy.Request
	decision policy.Decision
	record   spec.NetworkRecord
	began    time.Time
	cancel   context.CancelCauseFunc
	secrets  *inject.Set // lent when the request was sent
	uses     inject.Uses // of them
	up, down atomic.Int64
	tooLong  atomic.Int64 // how much of the request's body had arrived when it exceeded its limit; 0: it has not
	pending  bool         // it is being judged, or its body read for that; of the track's lock
	stale    bool         // the rules changed meanwhile; likewise
	over     error        // why other rules or leases ended it; likewise
	bare     bool         // the answer is a header and nothing else
	bill     bill         // of the model that was asked, if any
	interims int
}

// beginExchange takes the memory that a request holds, and begins its record. The exchange gives the memory
// back even if begin returns an error.
func (i *Inspector) beginExchange(c *conn, r *http.Request) (*exchange, error) {
	x := &exchange{conn: c, began: time.Now(), request: requestOf(r), trip: upstream.Trip{Hold: i.requests.Hold(), Window: i.windows.Hold()}}
	x.trip.Watcher = x
	x.record = spec.NetworkRecord{
		Event: spec.NetworkRequest, Name: c.host.Name, Addr: c.host.Addr, Port: c.host.Port,
		Protocol: r.Proto, Method: strict.Clip(r.Method), Path: clipPath(x.request.Path),
	}
	x.secrets = i.conf.Secrets()
	x.record.Path = x.secrets.Mask(x.record.Path)
	return x, x.holdRequest(r)
}

// handle judges a request, and passes it to its server. The context ends when the client no longer waits
// for the answer.
func (i *Inspector) handle(ctx context.Context, x *exchange, rw http.ResponseWriter, r *http.Request) {
	c := x.conn
	if i.conf.Local != nil {
		if h := i.conf.Local(c.host); h != nil {
			boundWrite(rw, r)
			h.ServeHTTP(rw, r)
			return
		}
	}
	var player http.Handler
	if i.conf.Mock != nil {
		player = i.conf.Mock(c.host)
	}
	if player != nil {
		x.record.Mocked, x.record.Verdict = true, spec.VerdictAllow
	}
	w := &answer{ResponseWriter: rw, x: x}
	x.w = w
	defer i.logExchange(x)
	if err := unsound(x, r); err != nil {
		if r.Method == strict.Refused {
			x.record.Method, x.record.Path = "", "" // no readable request arrived
		}
		i.turnAway(w, r, x, statusOf(err), err)
		return
	}
	// The track knows the request before it is judged, and notes the decision: no change of rules
	// falls between.
	ctx = c.track.addExchange(ctx, x)
	defer c.track.remove(x)
	if player != nil {
		if !i.passes(w, r, x) {
			return
		}
		i.playMock(ctx, w, r, x, player)
		x.bill.broken = ctx.Err() != nil
		return
	}
	i.judgeExchange(x)
	if x.decision.Cause == policy.CauseBody {
		var done func()
		if r, done = i.called(ctx, w, r, x); r == nil {
			return
		}
		defer done()
	}
	if !x.decision.Allowed() {
		x.refuse(x.decision.Reason())
		i.denyRequest(w, r, &x.decision)
		return
	}
	if err := i.closed(); err != nil {
		i.turnAway(w, r, x, http.StatusServiceUnavailable, err)
		return
	}
	if !i.metered(w, r, x) || !i.passes(w, r, x) {
		return
	}
	i.forward(ctx, w, r, x)
}

// judgeExchange decides about a request, by the rules in force when it begins. After an earlier change it
// is judged again; a later change finds it in the track.
func (i *Inspector) judgeExchange(x *exchange) {
	i.conf.CatchUp()
	for {
		x.decision = i.conf.Judge(x.conn.host, &x.request)
		var m *uploadlimit.Meter
		if b := x.decision.Budget; b != nil {
			m = i.conf.Outflow(b)
		}
		if !x.decision.Allowed() || x.conn.track.begins(x, m) {
			return
		}
	}
}

// passes calls the track before a request passes. It returns false if the request was refused for
// that.
func (i *Inspector) passes(w http.ResponseWriter, r *http.Request, x *exchange) bool {
	err := x.conn.track.passes()
	if err != nil {
		i.turnAway(w, r, x, http.StatusServiceUnavailable, err)
	}
	return err == nil
}

// closed returns why no request may pass now, or nil.
func (i *Inspector) closed() error {
	if i.conf.Closed == nil {
		return nil
	}
	return i.conf.Closed()
}

// lendSecrets exchanges the placeholders of secrets. It returns false if the request was refused.
func (i *Inspector) lendSecrets(ctx context.Context, w *answer, r *http.Request, x *exchange) (*http.Request, bool) {
	if x.secrets == nil {
		return r, true
	}
	if !i.renewLogins(ctx, w, r, x) {
		return nil, false
	}
	trailer := r.Trailer     // filled when the body ends
	r = r.Clone(r.Context()) // it will hold the values; the client's own must not
	r.Trailer = trailer
	uses, err := x.secrets.Request(r, i.target(x.conn.host), time.Now())
	if err == nil && x.request.MethodInBody { // the body hides which method
		err = x.secrets.AnyMethod(uses)
	}
	if err != nil {
		i.turnAway(w, r, x, http.StatusForbidden, err)
		return nil, false
	}
	x.conn.track.noteUses(x, uses)
	if err := i.stillLent(uses); err != nil { // taken back a moment ago
		i.turnAway(w, r, x, http.StatusForbidden, err)
		return nil, false
	}
	for _, u := range uses {
		record := x.record
		record.Event, record.Secret, record.Lease = spec.NetworkSecret, u.Secret, u.Lease
		i.conf.Log(record, &x.decision)
	}
	return r, true
}

// stillLent judges the uses of secrets by the secrets lent now.
func (i *Inspector) stillLent(uses inject.Uses) error {
	if now := i.conf.Secrets(); len(uses) > 0 {
		return now.Lent(uses, time.Now())
	}
	return nil
}

// malformed returns the error in the request's framing, or nil.
func (x *exchange) malformed() error {
	if x.conn.strict == nil {
		return nil
	}
	return x.conn.strict.Failed()
}

// refuse notes that the request did not pass.
func (x *exchange) refuse(why string) {
	x.record.Verdict, x.record.Reason = spec.VerdictDeny, why
}

// isOwnAnswer reports whether the answer is the gateway's own, because the server gave none.
func (x *exchange) isOwnAnswer() bool {
	return x.record.Verdict == spec.VerdictDeny || x.record.Verdict == spec.VerdictError
}

// turnAway refuses a request and gives the reason, such as a secret in a place where it must not
// be.
func (i *Inspector) turnAway(w http.ResponseWriter, r *http.Request, x *exchange, status int, err error) {
	x.refusedFor(err)
	told := refusal{Reason: err.Error()}
	if _, isOver := errors.AsType[*ended](err); isOver {
		s := x.decision.Suggest()
		told.Command, told.Note = s.Command(i.conf.Sandbox), s.Note
	}
	i.sayRefusal(w, r, status, told)
}

// noteOver notes that other rules or leases cut off an active request: the server did not break it
// off.
func (x *exchange) noteOver() {
	if x.over == nil || x.record.Verdict == spec.VerdictDeny || x.record.Verdict == "" && x.record.Status != http.StatusSwitchingProtocols {
		return
	}
	x.refusedFor(x.over)
}

// refusedFor is refuse with the details of an error: the secret whose placeholder was misplaced, or
// the later decision by which other rules have ended the request.
func (x *exchange) refusedFor(err error) {
	x.refuse(err.Error())
	if r, ok := errors.AsType[*inject.Refused](err); ok {
		x.record.Secret, x.record.Lease = r.Secret, r.Lease
	}
	if over, ok := errors.AsType[*ended](err); ok {
		if d, ok := errors.AsType[*policy.Denied](over.why); ok {
			x.decision = d.Decision
		}
	}
}

func (i *Inspector) logExchange(x *exchange) {
	x.record.Up, x.record.Down = x.up.Load(), x.down.Load()
	if x.record.Verdict == spec.VerdictDeny {
		x.record.Body = max(x.request.Body, x.tooLong.Load())
	}
	x.bill.endBill(x.record)
	i.noteSpent(x)
	x.noteOver()
	x.record.Duration = time.Since(x.began).Milliseconds()
	i.conf.Log(x.record, &x.decision)
}

// requestOf returns a request as the policy judges it.
func requestOf(r *http.Request) policy.Request {
	path, query, _ := strings.Cut(r.RequestURI, "?")
	q := policy.Request{
		Method: r.Method, Host: r.Host, Path: path, Query: query, Header: r.Header, Body: r.ContentLength,
		MethodInBody: form.IsHidden(r),
	}
	if slices.Contains(http1.Words(r.Header["Connection"]), "upgrade") {
		q.Upgrade = strings.Join(r.Header["Upgrade"], ",")
		if q.Upgrade == "" {
			q.Upgrade = "nothing"
		}
	}
	return q
}

// unsound finds errors that no rule could allow.
func unsound(x *exchange, r *http.Request) error {
	if err := x.malformed(); err != nil && r.Method == strict.Refused {
		return err
	}
	switch {
	case x.request.Upgrade != "" && (r.ContentLength != 0 || len(r.TransferEncoding) > 0):
		return errors.New("a request for another protocol has a body")
	case !hopsOnly(r.Header["Connection"]):
		return errors.New("the Connection field names one that belongs to the request")
	case !http1.IsWord(strings.ReplaceAll(x.request.Upgrade, " ", "")):
		return errors.New("the Upgrade field names no protocol")
	case r.ProtoMajor == 2 && !lengthHolds(r):
		return errors.New("the Content-Length field does not tell how long the body is")
	}
	if r.URL.RequestURI() != r.RequestURI {
		return errors.New("the target cannot be sent on as it is")
	}
	return nil
}

// statusOf returns the status for a client whose request is unsound.
func statusOf(err error) int {
	if errors.Is(err, held.ErrFull) {
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// lengthHolds reports whether a request over HTTP/2 gives the length of its body at most once, and
// as a plain number. Its frames give the length, too, and servers that rely on the frames alone do
// not check. Over HTTP/1 strict has checked.
func lengthHolds(r *http.Request) bool {
	said := r.Header["Content-Length"]
	return len(said) == 0 || len(said) == 1 && said[0] == strconv.FormatInt(r.ContentLength, 10)
}

// hopsOnly reports whether Connection leaves the judged parts of a request in it on its way.
func hopsOnly(connection []string) bool {
	return !slices.ContainsFunc(http1.Words(connection), func(w string) bool {
		return !slices.Contains([]string{"", "close", "keep-alive", "upgrade", "te", "http2-settings"}, w)
	})
}

// errProtocol is for an answer in a protocol that the request did not ask for.
var errProtocol = errors.New("the server changes to a protocol that it was not asked for")

// body is the body that the client sends.
type body struct {
	io.ReadCloser
	x         *exchange
	limit     int64 // policy.NoLimit: none
	got       int64
	trailer   http.Header
	announced []string
	sent      func(upstream.Host) // called once when all of the body was read; nil: no call
	form      form.Finder         // looks for another method in it; nil: not looked for
	asks      func() (limit int64, err error)
}

// noteAll notes that the client has sent all of it.
func (b *body) noteAll() {
	if b.sent != nil {
		b.sent(b.x.conn.host)
		b.sent = nil
	}
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.x.up.Add(int64(n))
	if b.form != nil && b.form.Finds(p[:n]) {
		limit, err := b.asks()
		if err != nil {
			return 0, err
		}
		if b.form = nil; limit != policy.NoLimit && (b.limit == policy.NoLimit || limit < b.limit) {
			b.limit = limit
		}
	}
	if err := b.x.bill.feedQuestion(p[:n]); err != nil {
		return 0, err
	}
	if err == io.EOF {
		b.pruneTrailer()
		b.noteAll()
	}
	if b.got += int64(n); b.limit != policy.NoLimit && b.got > b.limit {
		b.x.tooLong.Store(b.got)
		return 0, errHeld
	}
	return n, err
}

// pruneTrailer keeps only trailers that were announced and that no server takes for a part of the head:
// they were never judged.
func (b *body) pruneTrailer() {
	for name := range b.trailer {
		if !slices.Contains(b.announced, name) || !strict.MayTrail(name) ||
			strings.Contains(strings.ToLower(name), "method") || override.IsField(name) {
			delete(b.trailer, name)
		}
	}
}

// answer counts the bytes that go back.
type answer struct {
	http.ResponseWriter
	x *exchange
}

func (a *answer) Write(p []byte) (int, error) {
	if a.x.record.Status == 0 { // the handler set no other
		a.x.record.Status = http.StatusOK
	}
	a.x.bill.readAnswer(a.x.record.Status, a.Header(), p)
	n, err := a.ResponseWriter.Write(p)
	a.x.down.Add(int64(n))
	return n, err
}

// WriteHeader notes the status. A client that waits for 100 Continue got it when the request was
// judged.
func (a *answer) WriteHeader(status int) {
	if status == http.StatusContinue {
		return
	}
	if status >= 200 || status == http.StatusSwitchingProtocols {
		a.x.record.Status = status
		if !a.x.isOwnAnswer() {
			a.x.bill.headed(a.x.conn.host.Name, status, a.Header())
		}
	}
	if status < 200 {
		a.x.secrets.Header(a.Header())
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the server's own writer for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// flushAnswer sends on the written bytes. A header without a body waits for its end, a moment later, so
// that both go out as one: clients read an error of gRPC in no other form.
func (a *answer) flushAnswer() error {
	if a.x.bare {
		return nil
	}
	return a.ResponseWriter.(interface{ FlushError() error }).FlushError()
}

const maxLoggedPath = 512

func clipPath(s string) string {
	if len(s) > maxLoggedPath {
		return s[:maxLoggedPath] + "…"
	}
	return s
}
