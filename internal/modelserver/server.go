package modelserver

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/modelscript"
)

// A sandbox may send anything, as often as it likes. These constants bound the memory for that: bodies
// are read a few at a time, large ones one by one, and the number of open answers is limited.
const (
	maxBody    = 16 << 20 // of a request; agents send up to a few megabytes
	large      = 1 << 20  // bodies from this size on are large, and those of unknown size
	maxValues  = 1 << 17  // in a body: each takes a multiple of its two bytes; agents send some thousands
	maxReading = 8        // requests with bodies that are not large, read and decided concurrently
	maxOpen    = 64       // concurrent requests; more are refused

	aftermath = 5 * time.Second // after the last large body its memory is freed
)

// Server is the model. The exported fields may be set before the first request.
type Server struct {
	// RequireKey, if set, is the credential that every request must carry: as x-api-key, as
	// x-goog-api-key or as a bearer token. Other requests get a 401.
	RequireKey string
	// Log, if set, gets every request as a line of JSON.
	Log io.Writer
	// Record, if set, gets every request, one at a time. The server then stores no requests:
	// [Server.Requests] and [Server.Wait] return none.
	Record func(Request)
	// Now is the clock of the record and of limits, if set.
	Now func() time.Time

	script  []modelscript.Checked
	open    atomic.Int32  // requests in progress
	reading chan struct{} // limits readers to maxReading
	lifting chan struct{} // limits readers of a large body to one
	lift    []byte        // buffer for large bodies, owned by the holder of lifting

	closeOnce sync.Once
	closed    chan struct{} // ends hanging answers

	mu       sync.Mutex
	last     int         // number of the last request
	tidy     *time.Timer // frees memory
	requests []Request
	recorded chan struct{} // closed with the next request
	attempts map[string]int
	logErr   error
}

var _ http.Handler = (*Server)(nil)

// New returns a server for a script. It returns an error if the script is invalid.
func New(s modelscript.Script) (*Server, error) {
	script, err := s.Check()
	if err != nil {
		return nil, err
	}
	return &Server{
		script:   script,
		reading:  make(chan struct{}, maxReading),
		lifting:  make(chan struct{}, 1),
		closed:   make(chan struct{}),
		recorded: make(chan struct{}),
		attempts: map[string]int{},
	}, nil
}

// Close ends all delayed or hanging answers, now and from now on. The record can still be
// read.
func (s *Server) Close() { s.closeOnce.Do(func() { close(s.closed) }) }

func (s *Server) currentTime() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// ServeHTTP decides on a request, records it, and sends the answer.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.open.Add(-1)
	full := s.open.Add(1) > maxOpen
	s.sendAnswer(w, r, s.hearRequest(w, r, full))
}

// hearRequest reads a request, decides on it and records it. Afterwards only the record keeps parts of the
// request.
func (s *Server) hearRequest(w http.ResponseWriter, r *http.Request, full bool) reply {
	if !full {
		leave := s.enterRead(r)
		defer leave()
	}
	q := Request{
		Time: s.currentTime(), Method: r.Method, Host: r.Host, Path: r.URL.RequestURI(), Header: r.Header,
		Conversation: -1, Turn: -1,
	}
	p, act := findRoute(r)
	q.API = p.name()
	var out reply
	var err error
	if !full {
		q.Body, err = s.readBody(w, r)
	}
	switch {
	case full:
		out = refuse(p, http.StatusServiceUnavailable, "%d requests are being answered already", maxOpen)
	case err != nil:
		out = refuse(p, http.StatusBadRequest, "read the request: %v", err)
	case hasValues(q.Body, maxValues):
		out = refuse(p, http.StatusBadRequest, "there are %d values or more in the request", maxValues)
	default:
		out = s.decide(p, act, r, &q)
	}
	if q.Outcome == "" {
		q.Outcome, q.Error = Refused, out.why
	}
	q.Status = out.status
	s.record(q)
	return out
}

// hasValues reports whether JSON has n values or more, without decoding it.
func hasValues(text []byte, n int) bool {
	quoted := false
	for i := 0; i < len(text) && n > 0; i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == ',' || c == '[' || c == '{'): // each begins at most one
			n--
		}
	}
	return n == 0
}

// enterRead waits until a request may be read. The caller calls leave at the end.
func (s *Server) enterRead(r *http.Request) (leave func()) {
	among := s.reading
	if mayBeLarge(r) {
		among = s.lifting
	}
	select {
	case among <- struct{}{}:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	case <-s.closed:
		panic(http.ErrAbortHandler)
	}
	return func() {
		if among == s.lifting {
			s.tidyUp()
		}
		<-among
	}
}

func mayBeLarge(r *http.Request) bool { return r.ContentLength < 0 || r.ContentLength >= large }

// readBody reads the body of a request that entered. Large ones, which come one by one, all use the same
// buffer. A new buffer for each would grow in steps, and leave garbage of several times the body's size.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body := http.MaxBytesReader(w, r.Body, maxBody)
	if !mayBeLarge(r) {
		return io.ReadAll(body)
	}
	if s.lift == nil {
		s.lift = make([]byte, 0, maxBody+2*bytes.MinRead) // a buffer grows when less is left
	}
	whole := bytes.NewBuffer(s.lift)
	_, err := whole.ReadFrom(body)
	return whole.Bytes(), err
}

// tidyUp collects the garbage of a large body before the next one comes, and returns memory
// to the host when none comes for a while. The holder of lifting calls it. Nothing else
// here makes enough garbage to trigger the collector soon.
func (s *Server) tidyUp() {
	runtime.GC()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tidy != nil {
		s.tidy.Stop()
	}
	s.tidy = time.AfterFunc(aftermath, s.freeMemory)
}

// freeMemory frees the memory for large bodies, unless one is being read.
func (s *Server) freeMemory() {
	select {
	case s.lifting <- struct{}{}:
		s.lift = nil
		<-s.lifting
	default:
		return // the holder will do it
	}
	debug.FreeOSMemory()
}

// decide returns the answer to a request.
func (s *Server) decide(p api, act action, r *http.Request, q *Request) reply {
	switch act {
	case unknown:
		return refuse(p, http.StatusNotFound, "%s %s is not served here", r.Method, r.URL.Path)
	case probe: // clients send no key with it
		q.Outcome = Aside
		return answerWhole(obj{})
	}
	if s.RequireKey != "" && !carries(r.Header, s.RequireKey) {
		return refuse(p, http.StatusUnauthorized, "the request does not carry the key")
	}
	switch act {
	case upgrade:
		return refuse(p, http.StatusUpgradeRequired, "no WebSocket here: POST instead")
	case list:
		q.Outcome = Aside
		return answerWhole(models(p))
	case tokens:
		q.Outcome = Aside
		return answerWhole(estimate(p, q.Body))
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return refuse(p, http.StatusUnsupportedMediaType, "the body is compressed (%s): only plain ones are read", e)
	}
	d, err := p.readRequest(r, q.Body)
	if err == nil && len(d.model) > maxName {
		err = fmt.Errorf("the name of the model has %d bytes", len(d.model))
	}
	if err != nil {
		return refuse(p, http.StatusBadRequest, "read the request: %v", err)
	}
	return s.converse(p, d, q)
}

// maxName bounds the name of a model, which every event of an answer repeats.
const maxName = 256

// carries reports whether a request has the key in one of the providers' places.
func carries(h http.Header, key string) bool {
	bearer, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return h.Get("X-Api-Key") == key || h.Get("X-Goog-Api-Key") == key || bearer == key
}

// converse answers a question to the model.
func (s *Server) converse(p api, d dialogue, q *Request) reply {
	at := d.findPosition()
	q.Model, q.Session, q.Stream, q.Prompt = d.model, d.session, d.stream, at.prompt
	if kind := d.sideKind(); kind != "" {
		q.Outcome = Aside
		a, err := d.answerAside(kind)
		if err != nil {
			q.Outcome = ""
			return refuse(p, http.StatusBadRequest, "%v", err)
		}
		identify(&a, kind+"\x00"+d.sessionKey(at))
		return spoken(p, d, a)
	}
	c := s.findConversation(at.prompt)
	if c < 0 {
		return refuse(p, http.StatusBadRequest, "the script has no conversation for the prompt %q", clipText(at.prompt, maxTold))
	}
	if at.turn >= len(s.script[c].Turns) {
		return refuse(p, http.StatusBadRequest, "conversation %d of the script has no turn %d", c, at.turn)
	}
	turn := s.script[c].Turns[at.turn]
	a, err := d.answer(turn)
	if err != nil {
		return refuse(p, http.StatusBadRequest, "conversation %d, turn %d: %v", c, at.turn, err)
	}
	key := fmt.Sprintf("%s\x00%d\x00%d", d.sessionKey(at), c, at.turn)
	identify(&a, key)
	q.Conversation, q.Turn = c, at.turn
	q.Attempt = s.attempt(key)
	return s.perform(p, d, turn, a, q)
}

// findConversation returns the conversation for a prompt, or -1.
func (s *Server) findConversation(prompt string) int {
	for i, c := range s.script {
		if c.Match.MatchString(prompt) {
			return i
		}
	}
	return -1
}

// maxAttempts bounds the number of counters. Beyond it all counts start again.
const maxAttempts = 1 << 14

// attempt counts an attempt.
func (s *Server) attempt(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.attempts) >= maxAttempts && s.attempts[key] == 0 {
		clear(s.attempts)
	}
	s.attempts[key]++
	return s.attempts[key]
}

// perform returns the turn, or its failure.
func (s *Server) perform(p api, d dialogue, turn modelscript.Turn, a answer, q *Request) reply {
	var out reply
	fail := turn.Fail
	switch {
	case fail == nil || fail.Times > 0 && q.Attempt > fail.Times:
		q.Outcome = Answered
		out = spoken(p, d, a)
	case fail.Status != 0 && (fail.After == 0 || !d.stream):
		q.Outcome = Failed
		out = trouble{*fail, q.Time}.replyFor(p)
	case fail.Status != 0:
		q.Outcome = Failed
		out = spoken(p, d, a).failing(p, trouble{*fail, q.Time})
	default:
		q.Outcome = Failed
		out = spoken(p, d, a).broken(*fail)
	}
	out.delay = time.Duration(turn.Delay)
	return out
}
