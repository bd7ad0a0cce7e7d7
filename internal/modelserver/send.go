package modelserver

import (
	"net/http"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/internal/modelscript"
)

// reply is an answer to a request, decided but not sent.
type reply struct {
	status int
	header http.Header
	events []event // a stream, or
	body   []byte  // one piece
	delay  time.Duration
	stop   *modelscript.Failure // Hang or Cut
	why    string               // the reason of a refusal
}

// answerWhole returns an answer in one piece.
func answerWhole(body obj) reply {
	return reply{status: http.StatusOK, header: http.Header{}, body: encode(body)}
}

// spoken returns an answer of the model, as a stream or whole, as the client asks.
func spoken(p api, d dialogue, a answer) reply {
	out := reply{status: http.StatusOK, header: http.Header{}}
	if d.stream {
		out.events = p.stream(a)
	} else {
		out.body = encode(p.wholeAnswer(a))
	}
	for _, name := range []string{"Request-Id", "X-Request-Id"} {
		out.header.Set(name, "req_"+a.id)
	}
	return out
}

// broken returns the answer up to the point where it hangs or is cut.
func (r reply) broken(f modelscript.Failure) reply {
	r.stop = &f
	if f.After == 0 {
		r.status = 0
	}
	if r.events != nil {
		r.events = r.events[:min(f.After, len(r.events)-1)]
	}
	return r
}

// failing returns the stream up to its failure event.
func (r reply) failing(p api, f trouble) reply {
	body, _ := p.failure(f)
	r.events = append(r.events[:min(f.After, len(r.events)-1)], p.failed(body))
	return r
}

// sendAnswer sends an answer after its delay.
func (s *Server) sendAnswer(w http.ResponseWriter, r *http.Request, out reply) {
	if out.delay > 0 && !s.sleepFor(r, out.delay) {
		panic(http.ErrAbortHandler) // rather than an empty answer
	}
	if out.status == 0 {
		s.leaveConnection(r, *out.stop)
	}
	for name, values := range out.header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	if out.body != nil {
		sendBody(w, out)
	} else {
		sendEvents(w, out)
	}
	if out.stop != nil {
		s.leaveConnection(r, *out.stop)
	}
}

func sendBody(w http.ResponseWriter, out reply) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(out.body)))
	w.WriteHeader(out.status)
	if out.stop != nil {
		out.body = out.body[:len(out.body)/2]
	}
	_, _ = w.Write(out.body) // the client may have left
	flushData(w)
}

func sendEvents(w http.ResponseWriter, out reply) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(out.status)
	flushData(w)
	for _, e := range out.events {
		if _, err := w.Write(e.encode()); err != nil {
			return
		}
		flushData(w)
	}
}

// flushData sends buffered data. If that is not possible, the data is sent later.
func flushData(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// leaveConnection waits if the failure is a hang, and closes the connection. It does not return.
func (s *Server) leaveConnection(r *http.Request, f modelscript.Failure) {
	if f.Hang > 0 {
		s.sleepFor(r, time.Duration(f.Hang))
	}
	panic(http.ErrAbortHandler)
}

// sleepFor reports whether the time passed before the client left or the server was closed.
func (s *Server) sleepFor(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-s.closed:
	}
	return false
}
