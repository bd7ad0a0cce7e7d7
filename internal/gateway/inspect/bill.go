package inspect

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/spec"
)

// bill counts a model's answer. Its zero value is for a request that asks no model.
type bill struct {
	tally  *meter.Tally
	begun  bool
	coded  bool // compressed, although it was asked for without
	broken bool // it did not reach its end
	left   bool // the client did not wait for it
	limit  limit
	socket *meter.Socket // the answer goes on over a WebSocket
}

// metered begins to count if a model is asked. It returns false if the request was refused.
func (i *Inspector) metered(w http.ResponseWriter, r *http.Request, x *exchange) bool {
	if i.conf.Meter == nil {
		return true
	}
	tally, err := i.conf.Meter(x.conn.host, r)
	if err != nil {
		status := http.StatusForbidden
		if r.Header.Get("Upgrade") != "" { // by which agents know that they can ask by POST
			status = http.StatusUpgradeRequired
		}
		i.turnAway(w, r, x, status, err)
		return false
	}
	x.bill.tally = tally
	return true
}

func answers(status int) bool { return status >= 200 && status < 300 }

// readAnswer reads a piece of the answer.
func (b *bill) readAnswer(status int, h http.Header, p []byte) {
	if b.tally == nil {
		return
	}
	if !answers(status) {
		b.limit.readBody(p)
		return
	}
	if !b.begun {
		b.begun = true
		b.coded = h.Get("Content-Encoding") != "" && h.Get("Content-Encoding") != "identity"
		if kind := h.Get("Content-Type"); strings.HasPrefix(kind, "text/event-stream") || strings.HasPrefix(kind, "application/x-ndjson") {
			b.tally.Stream()
		}
	}
	if !b.coded {
		_, _ = b.tally.Write(p) // never fails
	}
}

// upgraded returns the reader of the server's bytes in another protocol; nil: they are not read.
func (b *bill) upgraded(protocol string) io.Writer {
	if b.tally == nil || !strings.EqualFold(protocol, "websocket") {
		return nil
	}
	b.socket = b.tally.Socket()
	return b.socket
}

// endBill receives the result of the request.
func (b *bill) endBill(r spec.NetworkRecord) {
	if b.tally == nil {
		return
	}
	b.limit.endLimit()
	if r.Verdict == spec.VerdictError && r.Reason != errHungUp.Error() {
		b.tally.Failed(spec.Limited{At: time.Now().UTC(), Host: r.Name, Why: r.Reason})
	}
	if r.Status == http.StatusSwitchingProtocols {
		if b.socket == nil {
			b.tally.Unread()
		} else {
			b.socket.Close()
		}
		b.tally.End(0, 0, false)
		return
	}
	switch {
	case b.left: // the server charges for the answer that it has begun
		b.tally.End(r.Up, 0, true)
	case answers(r.Status):
		b.tally.End(r.Up, r.Down, b.broken)
	default:
		b.tally.End(0, 0, false)
	}
}

// feedQuestion reads a piece of the question. The error is the reason why it may not be asked.
func (b *bill) feedQuestion(p []byte) error {
	if b.tally == nil {
		return nil
	}
	return b.tally.Asked(p)
}

// refused returns the error of asked.
func (b *bill) refused() error {
	if b.tally == nil {
		return nil
	}
	return b.tally.Refused()
}
