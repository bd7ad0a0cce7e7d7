package upstream

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/inspect/http1"
)

// expectTime is how long a server may take to say whether it wants a body. Many never do.
const expectTime = time.Second

// upload is a request's body on its way.
type upload struct {
	expect chan bool // whether the body is wanted; nil: the client did not ask
	asked  sync.Once
	done   chan struct{}
	head   atomic.Bool // the answer's head has arrived
	err    error
	unread error // err, if reading the body failed
}

func newUpload(r *http.Request) *upload {
	up := &upload{done: make(chan struct{})}
	if slices.Contains(http1.Words(r.Header["Expect"]), "100-continue") {
		up.expect = make(chan bool, 1)
	}
	return up
}

func (up *upload) runUpload(l *link, r *http.Request) {
	defer close(up.done)
	if up.err = l.sendRequest(r, up); up.err != nil {
		if !errors.Is(up.err, errUnwanted) { // the server's answer is on the way
			l.out.Reset()
		}
		return
	}
	l.timer.Reset(l.u.head)
	if up.head.Load() {
		l.timer.Stop()
	}
}

// wanted waits until the server wants the body, or does not answer in time.
func (up *upload) wanted() error {
	if up.expect == nil {
		return nil
	}
	t := time.NewTimer(expectTime)
	defer t.Stop()
	select {
	case yes := <-up.expect:
		if !yes {
			return errUnwanted
		}
	case <-t.C:
	}
	return nil
}

// errUnwanted ends an upload.
var errUnwanted = errors.New("the server does not want the body")

// allowBody notes that the server wants the body.
func (up *upload) allowBody() { up.decide(true) }

// answered notes that the answer has begun. If another request can follow, the body is still sent.
func (up *upload) answered(l *link, goOn bool) {
	if up != nil {
		up.head.Store(true)
		up.decide(goOn)
	}
}

func (up *upload) decide(wanted bool) {
	if up != nil && up.expect != nil {
		up.asked.Do(func() { up.expect <- wanted })
	}
}

// finished waits for a moment until all of the body is sent.
func (up *upload) finished(patience time.Duration) bool {
	if up == nil {
		return true
	}
	select {
	case <-up.done:
		return up.err == nil
	default:
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-up.done:
		return up.err == nil
	case <-t.C:
		return false
	}
}

// cutBody ends an upload whose link is closed. Afterwards the upload no longer reads the body.
func (up *upload) cutBody(body io.Closer) {
	if up == nil {
		return
	}
	select {
	case <-up.done:
		return
	default:
	}
	up.decide(false)
	_ = body.Close()
	<-up.done
}

// writeBody writes a request's body. Every piece goes on at once.
func (up *upload) writeBody(w *bufio.Writer, r *http.Request) error {
	buf := http1.NewBuffer()
	defer http1.PutBuffer(buf)
	left := r.ContentLength
	for {
		n, err := r.Body.Read(*buf)
		if err != nil && err != io.EOF {
			up.unread = err
			return err
		}
		if left >= 0 {
			if left -= int64(n); left < 0 {
				return errRequest
			}
			_, _ = w.Write((*buf)[:n])
		} else if n > 0 {
			http1.WriteChunk(w, (*buf)[:n])
		}
		if err == io.EOF {
			break
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	switch {
	case left > 0:
		up.unread = io.ErrUnexpectedEOF
		return up.unread
	case left < 0:
		http1.WriteLastChunk(w, r.Trailer)
	}
	return w.Flush()
}

func writeTrailerNames(w *bufio.Writer, trailer http.Header) {
	if len(trailer) == 0 {
		return
	}
	_, _ = w.WriteString("Trailer: " + strings.Join(slices.Sorted(maps.Keys(trailer)), ",") + "\r\n")
}
