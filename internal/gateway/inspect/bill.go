package inspect

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/spec"
)

// bill is what is read of a model's answer. Its zero value is that of a request that
// asks none.
type bill struct {
	tally  *meter.Tally
	begun  bool
	coded  bool // it is compressed, whatever it was asked for
	broken bool // it did not come to its end
	left   bool // it was not waited for
	limit  limit
	socket *meter.Socket // the answer goes on over a WebSocket
}

// metered begins to count if a model is asked. It is false if the request was refused.
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

// read reads a piece of the answer.
func (b *bill) read(status int, h http.Header, p []byte) {
	if b.tally == nil {
		return
	}
	if !answers(status) {
		b.limit.read(p)
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

// upgraded gives what reads what a server says in another protocol; nil: nobody does.
func (b *bill) upgraded(protocol string) io.Writer {
	if b.tally == nil || !strings.EqualFold(protocol, "websocket") {
		return nil
	}
	b.socket = b.tally.Socket()
	return b.socket
}

// end is told what became of the request.
func (b *bill) end(r spec.NetworkRecord) {
	if b.tally == nil {
		return
	}
	b.limit.end()
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
	case b.left: // what the server has begun costs all the same
		b.tally.End(r.Up, 0, true)
	case answers(r.Status):
		b.tally.End(r.Up, r.Down, b.broken)
	default:
		b.tally.End(0, 0, false)
	}
}

// asked reads a piece of the question. The error says why it may not be asked.
func (b *bill) asked(p []byte) error {
	if b.tally == nil {
		return nil
	}
	return b.tally.Asked(p)
}

// refused is what asked said.
func (b *bill) refused() error {
	if b.tally == nil {
		return nil
	}
	return b.tally.Refused()
}
