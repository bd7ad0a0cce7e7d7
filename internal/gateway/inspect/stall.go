package inspect

import (
	"net/http"
	"time"
)

// stallTime is how long a client may not read an answer before what its server goes on to send
// is counted.
const stallTime = 2 * time.Second

// stall watches a client that does not read an answer. If the server speaks HTTP/2, net/http
// goes on to take the answer, up to a window for each request. That is counted when the client
// stalls, and an answer for which there is no room breaks off.
type stall struct {
	w     *answer
	size  int64 // 0: nothing is taken beside what is read
	taken bool
	clock alarm
}

func newStall(w *answer, resp *http.Response, from *answerBody) *stall {
	s := &stall{w: w}
	if from == nil && resp.ProtoMajor == 2 {
		s.size = streamWindow
		if resp.ContentLength >= 0 {
			s.size = min(s.size, resp.ContentLength)
		}
	}
	s.clock.f = s.count
	return s
}

// watch calls a function that may wait for the client.
func (s *stall) watch(f func() error) error {
	if s.size == 0 || s.taken {
		return f()
	}
	s.clock.set(stallTime)
	err := f()
	s.taken = !s.clock.stop() || s.taken
	return err
}

// count takes what the answer holds, or ends it.
func (s *stall) count() {
	if s.w.x.hold.Take(s.size) == nil {
		return
	}
	s.w.x.cancel(errStalled)
	if s.w.x.record.Protocol == http2 {
		_ = http.NewResponseController(s.w.ResponseWriter).SetWriteDeadline(past)
		return
	}
	s.w.x.conn.Reset()
}
