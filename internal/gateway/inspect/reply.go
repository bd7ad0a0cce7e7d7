package inspect

import (
	"bufio"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/inspect/http1"
)

// reply writes the answer to a request over HTTP/1. The header is that of an [http.ResponseWriter],
// trailers included.
type reply struct {
	s      *session
	r      *http.Request
	body   *clientBody
	header http.Header
	w      *bufio.Writer // nil: nothing was written yet

	status   int // 0: not told yet
	framing  framing
	left     int64 // of a body of a known length
	last     bool  // the connection ends after the answer
	told     bool  // the client was told to send its body
	hijacked bool
	giveBack func() // releases the request's memory when the answer is sent
}

// framing is how the end of a body is marked.
type framing uint8

const (
	byLength framing = iota
	byChunks
	byEnd  // of the connection
	noBody // the answer ends with its header, even if that announces a body
)

// Header returns the header of the answer.
func (w *reply) Header() http.Header { return w.header }

// WriteHeader writes the head of the answer, or one of an interim answer, which
// goes out at once.
func (w *reply) WriteHeader(status int) {
	switch {
	case w.status != 0 || w.hijacked:
		return
	case status >= 200 || status == http.StatusSwitchingProtocols:
		w.status = status
	case w.r.ProtoMinor == 0: // HTTP/1.0 has no interim answers
		return
	}
	if status >= 200 {
		w.frameBody()
	}
	b := w.writer()
	_, _ = b.WriteString("HTTP/1.1 ")
	_, _ = b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(status), 10))
	_, _ = b.WriteString(reason(status))
	_, _ = b.WriteString("\r\n")
	_ = w.header.WriteSubset(b, w.unsaid(status))
	if status >= 200 {
		w.sayFraming(b)
	}
	_, _ = b.WriteString("\r\n")
	if status < 200 && w.status == 0 {
		w.told = w.told || status == http.StatusContinue
		_ = w.FlushError()
	}
}

// reason returns the text after a status, for people.
func reason(status int) string {
	if text := http.StatusText(status); text != "" {
		return " " + text
	}
	return " status code " + strconv.Itoa(status)
}

// unsaid are fields that are written in another way, or belong to other answers. Fields that begin
// with TrailerPrefix have no name that could be written.
func (w *reply) unsaid(status int) map[string]bool {
	upgrade := status == http.StatusSwitchingProtocols
	return map[string]bool{
		"Transfer-Encoding": true,
		"Connection":        !upgrade,
		"Content-Length":    upgrade || status < 200 || status == http.StatusNoContent,
	}
}

// frameBody decides how the body ends, and whether the connection ends with it.
func (w *reply) frameBody() {
	w.last = w.last || w.r.Close || w.s.last.Load() || strings.EqualFold(w.header.Get("Connection"), "close") || w.unwanted()
	length, known := w.length()
	if !known {
		delete(w.header, "Content-Length")
	}
	switch {
	case w.r.Method == http.MethodHead || w.status == http.StatusNoContent || w.status == http.StatusNotModified:
		w.framing = noBody
	case known:
		w.framing, w.left = byLength, length
	case w.r.ProtoMinor > 0:
		w.framing = byChunks
	default:
		w.framing, w.last = byEnd, true
	}
}

// length returns the length of the body, if the header gives exactly one in the only form that all
// clients read alike: an answer of HTTP/2 may have come with two lengths, or a sign.
func (w *reply) length() (n int64, known bool) {
	values := w.header["Content-Length"]
	if len(values) != 1 {
		return 0, false
	}
	n, err := http1.ParseLength(values[0])
	return n, err == nil
}

// unwanted reports whether the request's body was not read and never asked for, and is too long or
// waits for 100 Continue.
func (w *reply) unwanted() bool {
	return !w.body.ended.Load() && !w.body.begun.Load() && !w.told &&
		(w.r.ContentLength > maxSkip || len(w.r.Header["Expect"]) > 0)
}

// sayFraming writes the fields about the framing.
func (w *reply) sayFraming(b *bufio.Writer) {
	if w.framing == byChunks {
		_, _ = b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	switch {
	case w.last:
		_, _ = b.WriteString("Connection: close\r\n")
	case w.r.ProtoMinor == 0:
		_, _ = b.WriteString("Connection: keep-alive\r\n")
	}
	if _, ok := w.header["Date"]; !ok { // a proxy that passes an answer on has to add the date
		_, _ = b.WriteString("Date: ")
		_, _ = b.Write(time.Now().UTC().AppendFormat(b.AvailableBuffer(), http.TimeFormat))
		_, _ = b.WriteString("\r\n")
	}
}

// errTooMuch is for more of a body than was announced.
var errTooMuch = errors.New("the answer is longer than it says")

// Write writes a piece of the body.
func (w *reply) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.hijacked:
		return 0, http.ErrHijacked
	case w.framing == noBody:
		return len(p), nil
	case w.framing == byLength && int64(len(p)) > w.left:
		w.last = true
		return 0, errTooMuch
	case len(p) == 0:
		return 0, nil
	case w.framing == byChunks:
		http1.WriteChunk(w.writer(), p)
	default:
		_, _ = w.writer().Write(p)
		w.left -= int64(len(p))
	}
	_, err := w.writer().Write(nil)
	return len(p), err
}

// FlushError sends the written bytes.
func (w *reply) FlushError() error {
	if w.w == nil {
		return nil
	}
	return w.w.Flush()
}

func (w *reply) writer() *bufio.Writer {
	if w.w == nil {
		w.w = http1.NewWriter(w.s.served)
	}
	return w.w
}

// release gives the writer back.
func (w *reply) release() {
	if w.w != nil {
		http1.PutWriter(w.w)
		w.w = nil
	}
}

// finish ends the answer. It returns false if the connection must end at once, even without an
// orderly end.
func (w *reply) finish() bool {
	defer w.release()
	if w.hijacked {
		return false
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.framing == byChunks:
		http1.WriteLastChunk(w.writer(), w.trailer())
	case w.framing == byLength && w.left > 0:
		w.s.conn.Reset()
		return false
	}
	return w.FlushError() == nil
}

// trailer returns the fields of the header that were meant for the end.
func (w *reply) trailer() http.Header {
	var t http.Header
	add := func(name string, values []string) {
		if t == nil {
			t = http.Header{}
		}
		t[http.CanonicalHeaderKey(name)] = values
	}
	for _, list := range w.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = http.CanonicalHeaderKey(strings.Trim(name, " \t")); w.header[name] != nil {
				add(name, w.header[name])
			}
		}
	}
	for name, values := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			add(name, values)
		}
	}
	return t
}

// hijack returns the connection after an answer that changes the protocol.
func (w *reply) hijack() (*changed, error) {
	w.s.unwatch()
	err := w.s.conn.strict.Upgrade() // before the client is told
	if err == nil {
		err = w.FlushError()
	}
	w.release()
	w.hijacked = true
	return &changed{w.s}, err
}

// changed is a connection of the inside that no longer speaks HTTP.
type changed struct{ s *session }

func (c *changed) Read(b []byte) (int, error)  { return c.s.r.Read(b) }
func (c *changed) Write(b []byte) (int, error) { return c.s.served.Write(b) }
func (c *changed) Close() error                { return c.s.served.Close() }

// CloseWrite sends the end to the client.
func (c *changed) CloseWrite() error {
	return http1.CloseWrite(c.s.served)
}
