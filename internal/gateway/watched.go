package gateway

import (
	"errors"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/clienthello"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
)

// errOtherName is for a client that looked up one name and asks for another.
var errOtherName = errors.New("the TLS client asks for another name than it looked up")

// helloTime is how long a client may take over its ClientHello.
const helloTime = 20 * time.Second

// helloDepth is how far into a client's bytes a ClientHello is looked for at any place. Some
// protocols ask for TLS with a few bytes, and the ClientHello follows at once. Beyond that depth it
// is looked for where a read begins: a client that waited for the server's consent starts it there.
const helloDepth = 4 << 10

// watched is the inside's connection, in which a ClientHello is looked for. One server address may
// serve many names, and the name in the ClientHello selects the one that answers, also on a
// connection to a literal address.
type watched struct {
	relay.Conn
	asks func(name string) error // judges the name that a ClientHello asks for; nil: no search
	// unreadable judges a ClientHello that cannot be read. If it passes, nothing after it is looked
	// at. It is set if asks is.
	unreadable func(error) error

	ahead []byte // was read, and is still to be looked at
	rest  []byte // was looked at, and is still to be passed on

	tls  bool            // a ClientHello came, and it names the connection's host
	said int             // bytes that were looked at
	tail []byte          // the last of them, if a ClientHello may begin there
	scan *inject.Scanner // looks for placeholders of secrets; nil: no secret is lent
}

// Await returns at once while bytes that were read ahead remain.
func (w *watched) Await() {
	if len(w.rest) == 0 && len(w.ahead) == 0 {
		w.Conn.Await()
	}
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.readWatched(b)
	if w.scan == nil || w.tls || n == 0 {
		return n, err
	}
	if err := w.scan.Feed(b[:n]); err != nil {
		return 0, err
	}
	return n, err
}

func (w *watched) readWatched(b []byte) (n int, err error) {
	switch {
	case len(w.rest) > 0:
		n = copy(b, w.rest)
		w.rest = w.rest[n:]
		return n, nil
	case len(w.ahead) > 0:
		n = copy(b, w.ahead)
		w.ahead = w.ahead[n:]
	default:
		n, err = w.Conn.Read(b)
	}
	if w.tls || w.asks == nil || n == 0 {
		return n, err
	}
	text, before := b[:n], len(w.tail)
	if before > 0 {
		text = slices.Concat(w.tail, text)
	}
	at, looks := w.findHello(text, before)
	w.said += n
	w.tail = nil
	switch looks {
	case clienthello.Maybe:
		w.tail = slices.Clone(text[at:])
	case clienthello.Yes:
		return w.passHello(b, text, at, before)
	}
	return n, err
}

// findHello returns the place in text where a ClientHello may begin. The first bytes of text were there
// before.
func (w *watched) findHello(text []byte, before int) (int, clienthello.Likeness) {
	if before > 0 {
		if looks := clienthello.Looks(text); looks != clienthello.No {
			return 0, looks
		}
	}
	if looks := clienthello.Looks(text[before:]); looks != clienthello.No {
		return before, looks
	}
	for at := range min(len(text), before+helloDepth-w.said) {
		if looks := clienthello.LooksAnywhere(text[at:]); looks != clienthello.No {
			return at, looks
		}
	}
	return 0, clienthello.No
}

// passHello reads the ClientHello that begins in text. It lets the ClientHello pass if it names the
// connection's host, or may pass unread.
func (w *watched) passHello(b, text []byte, at, before int) (int, error) {
	_ = w.SetReadDeadline(time.Now().Add(helloTime))
	info, said, err := clienthello.Read(slices.Concat(text[at:], w.ahead), w.Conn)
	_ = w.SetReadDeadline(time.Time{})
	switch {
	case err == nil:
		err = w.asks(info.ServerName)
		w.tls = err == nil
	case errors.Is(err, clienthello.ErrUnreadable), isTimeout(err):
		w.asks, err = nil, w.unreadable(err)
	}
	if err != nil {
		return 0, err
	}
	w.ahead = nil
	said = slices.Concat(text[:at], said)[before:]
	n := copy(b, said)
	w.rest = said[n:]
	return n, nil
}
