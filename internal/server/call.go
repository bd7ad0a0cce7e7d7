package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/app"
	"github.com/bothy-dev/bothy/internal/document"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/server/once"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// call is a request that reached its route.
type call struct {
	server *Server
	route  *Route
	w      http.ResponseWriter
	r      *http.Request
	token  *apitoken.Token // nil: the owner, over the unix socket

	engine   *engine.Engine
	settings settings.Settings
	begun    bool // the answer has begun

	mu    sync.Mutex
	notes []string
}

type tokenKey struct{}

func withToken(ctx context.Context, t *apitoken.Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, t)
}

func tokenOf(ctx context.Context) *apitoken.Token {
	t, _ := ctx.Value(tokenKey{}).(*apitoken.Token)
	return t
}

// serveCall answers a call.
func (s *Server) serveCall(c *call) {
	defer s.recoverPanic(c)
	if err := c.checkRight(); err != nil {
		c.answerError(err)
		return
	}
	release, err := s.takeSlot(c.route.limitKind())
	if err != nil {
		c.answerError(err)
		return
	}
	defer release()
	if c.engine, c.settings, err = s.openEngine(c.addNote); err != nil {
		c.answerError(err)
		return
	}
	handle := func(c *call) error { return c.route.handle(c) }
	if key := c.r.Header.Values("Idempotency-Key"); len(key) > 0 && c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		handle = func(c *call) error { return c.serveOnce(key) }
	}
	if err := handle(c); err != nil {
		c.answerError(err)
	}
}

// checkRight refuses a token without the right, or for other sandboxes.
func (c *call) checkRight() error {
	if c.token == nil {
		return nil
	}
	if c.route.Scope != "" && !c.token.Allows(c.route.Scope) {
		return spec.Errorf(spec.ErrDenied, "the token lacks the scope %s", c.route.Scope).
			WithHint("make one that has it: bothy token create --scope %s", c.route.Scope)
	}
	if len(c.token.Sandboxes) == 0 {
		return nil
	}
	name := c.r.PathValue("name")
	if name == "" && c.route.PerSandbox {
		name = c.r.URL.Query().Get("sandbox")
	}
	if name == "" || !c.token.IsFor(name) {
		if name == "" && c.route.Scope == "" { // its answer is not about sandboxes
			return nil
		}
		return spec.Errorf(spec.ErrDenied, "the token is for some sandboxes only, and this is not about one of them")
	}
	return nil
}

// addNote adds a text that the caller should know. It goes into a header of the answer.
func (c *call) addNote(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.notes) < maxNotes {
		c.notes = append(c.notes, text)
	}
}

// provisioner makes and starts sandboxes. Its notes go into the answer.
func (c *call) provisioner() *provision.Provisioner {
	return app.Provisioner(c.engine, c.settings, app.Quiet(c.noteFormat))
}

// noteFormat is note for [app.Quiet].
func (c *call) noteFormat(format string, args ...any) { c.addNote(fmt.Sprintf(format, args...)) }

// causeOf returns the reason for the end of the request, if it ended, or else the error.
func (c *call) causeOf(err error) error {
	if cause := context.Cause(c.r.Context()); cause != nil {
		return cause
	}
	return err
}

// Bounds of the notes in a header.
const (
	maxNotes = 16
	maxNote  = 1000 // bytes
)

// sandbox returns the sandbox that the path names.
func (c *call) sandbox() (*spec.Sandbox, error) {
	sb, err := c.engine.Find(c.r.PathValue("name"))
	if err == nil && c.token != nil && !c.token.IsFor(sb.Name) {
		return nil, spec.Errorf(spec.ErrDenied, "the token is not for sandbox %s", sb.Name)
	}
	return sb, err
}

// maxDocument is the largest body that is a document, in bytes.
const maxDocument = 24 << 20

// smallDocument is the largest body of all calls but those whose documents carry files.
const smallDocument = 1 << 20

// decode reads the body into a value of the route's type. An empty body leaves it as it is.
func (c *call) decode(into any) error { return c.decodeUpTo(into, smallDocument) }

func (c *call) decodeUpTo(into any, most int64) error {
	if reflect.TypeOf(into).Elem() != reflect.TypeOf(c.route.Request) {
		return fmt.Errorf("the table of routes has another type for the body of %s", c.route.Pattern)
	}
	body, err := c.readBody(most)
	if err != nil || len(body) == 0 {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err = d.Decode(into); err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one document")
		}
	}
	if err != nil {
		return spec.Errorf(spec.ErrUsage, "read the body: %s", term.Line(err.Error()))
	}
	return nil
}

// readBody reads the body, within a time and a length. Afterwards the connection has no deadline, so that the
// end of the client is noticed whenever it comes.
func (c *call) readBody(most int64) ([]byte, error) {
	rc := http.NewResponseController(c.w)
	_ = rc.SetReadDeadline(time.Now().Add(c.server.patience.body))
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, most))
	if err != nil {
		return nil, err
	}
	return body, rc.SetReadDeadline(time.Time{})
}

// answer writes the answer. v is of the route's type, or nil.
func (c *call) answer(status int, v any) error {
	if c.route.Answer != nil && reflect.TypeOf(v) != reflect.TypeOf(c.route.Answer) {
		return fmt.Errorf("the table of routes has another type for the answer of %s", c.route.Pattern)
	}
	c.beginAnswer()
	if v == nil {
		c.w.WriteHeader(status)
		return nil
	}
	writeDocument(c.w, status, v)
	return nil
}

// beginAnswer writes the notes into the header.
func (c *call) beginAnswer() {
	c.begun = true
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.notes {
		text = term.Line(text)
		if len(text) > maxNote {
			text = text[:maxNote]
		}
		c.w.Header().Add("Bothy-Note", strconv.QuoteToASCII(text))
	}
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(c.server.patience.answer))
}

// answerError writes an error, unless the answer has begun.
func (c *call) answerError(err error) {
	if c.begun {
		return
	}
	c.beginAnswer()
	writeError(c.w, err)
}

// writeError writes an error as the answer.
func writeError(w http.ResponseWriter, err error) {
	d := document.FailureOf(err)
	status := document.StatusOf(d.Error.Exit)
	if b, ok := errors.AsType[*busy](err); ok {
		status, d.Error.Code = b.status(), "busy"
		d.Error.Next = []string{"try again later"}
		w.Header().Set("Retry-After", "1")
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		status, d.Error.Code, d.Error.Exit = http.StatusRequestEntityTooLarge, "too_large", spec.ExitUsage
	}
	if errors.Is(err, errClosing) {
		status, d.Error.Code = http.StatusServiceUnavailable, "closing"
		w.Header().Set("Retry-After", "1")
	}
	var slow interface{ Timeout() bool }
	if errors.As(err, &slow) && slow.Timeout() && d.Error.Exit == spec.ExitError {
		status, d.Error.Code = http.StatusRequestTimeout, "slow"
		d.Error.Why = "the body of the request did not arrive in time"
		w.Header().Set("Connection", "close")
	}
	writeDocument(w, status, d)
}

// writeDocument writes a document with a status.
func writeDocument(w http.ResponseWriter, status int, v any) {
	b, err := document.Encode(v)
	if err != nil {
		status = http.StatusInternalServerError
		b = []byte(`{"error":{"code":"error","why":"the answer cannot be written as JSON","next":[],"exit":1}}` + "\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// serveOnce answers a call with an idempotency key.
func (c *call) serveOnce(keys []string) error {
	if len(keys) > 1 {
		return spec.Errorf(spec.ErrUsage, "the request has %d headers Idempotency-Key", len(keys))
	}
	if c.route.Stream != "" || c.route.Bytes != "" {
		return spec.Errorf(spec.ErrUsage, "this call takes no Idempotency-Key: its body or its answer is a stream")
	}
	body, err := c.readBody(maxDocument)
	if err != nil {
		return err
	}
	q := once.Request{Target: c.r.Method + " " + c.r.URL.Path + "?" + c.r.URL.RawQuery, Key: keys[0], Body: body}
	if c.token != nil {
		q.Caller = c.token.ID
	}
	a, repeated, err := c.server.answers.Do(c.r.Context(), q, func() once.Answer {
		kept := &keptAnswer{header: http.Header{}}
		inner := &call{server: c.server, route: c.route, w: kept, r: c.r, token: c.token, engine: c.engine, settings: c.settings}
		// A client that is gone will ask for the answer: only the end of the server cuts the call off.
		ctx, done := context.WithCancelCause(context.WithoutCancel(c.r.Context()))
		defer done(nil)
		defer context.AfterFunc(c.server.requests, func() { done(errClosing) })()
		inner.r = c.r.WithContext(ctx)
		inner.r.Body = io.NopCloser(bytes.NewReader(body))
		if err := c.route.handle(inner); err != nil {
			inner.answerError(err)
		}
		c.notes = append(c.notes, inner.notes...)
		return once.Answer{Status: kept.status, Body: kept.body.Bytes()}
	})
	if err != nil {
		return err
	}
	if repeated {
		c.w.Header().Set("Idempotency-Replayed", "true")
	}
	c.beginAnswer()
	if len(a.Body) > 0 {
		c.w.Header().Set("Content-Type", "application/json")
	}
	c.w.WriteHeader(a.Status)
	_, err = c.w.Write(a.Body)
	return err
}

// keptAnswer collects an answer that is recorded before it is sent.
type keptAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *keptAnswer) Header() http.Header { return k.header }

func (k *keptAnswer) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

func (k *keptAnswer) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	return k.body.Write(b)
}

// Deadlines of the real connection are set when the answer is sent.
func (k *keptAnswer) SetReadDeadline(time.Time) error  { return nil }
func (k *keptAnswer) SetWriteDeadline(time.Time) error { return nil }
