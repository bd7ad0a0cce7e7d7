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

// whole returns an answer in one piece.
func whole(body obj) reply {
	return reply{status: http.StatusOK, header: http.Header{}, body: encode(body)}
}

// spoken returns an answer of the model, as a stream or whole, as the client asks.
func spoken(p api, d dialogue, a answer) reply {
	out := reply{status: http.StatusOK, header: http.Header{}}
	if d.stream {
		out.events = p.stream(a)
	} else {
		out.body = encode(p.whole(a))
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

// send sends an answer after its delay.
func (s *Server) send(w http.ResponseWriter, r *http.Request, out reply) {
	if out.delay > 0 && !s.sleep(r, out.delay) {
		panic(http.ErrAbortHandler) // rather than an empty answer
	}
	if out.status == 0 {
		s.leave(r, *out.stop)
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
		s.leave(r, *out.stop)
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
	flush(w)
}

func sendEvents(w http.ResponseWriter, out reply) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(out.status)
	flush(w)
	for _, e := range out.events {
		if _, err := w.Write(e.bytes()); err != nil {
			return
		}
		flush(w)
	}
}

// flush sends buffered data. If that is not possible, the data is sent later.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// leave waits if the failure is a hang, and closes the connection. It does not return.
func (s *Server) leave(r *http.Request, f modelscript.Failure) {
	if f.Hang > 0 {
		s.sleep(r, time.Duration(f.Hang))
	}
	panic(http.ErrAbortHandler)
}

// sleep reports whether the time passed before the client left or the server was closed.
func (s *Server) sleep(r *http.Request, d time.Duration) bool {
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
