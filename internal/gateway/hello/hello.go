// Package hello reads what a TLS client says first, without answering: the name
// it wants to talk to.
package hello

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// MaxSize bounds a ClientHello, in bytes. Those with post-quantum keys have
// about two thousand.
const MaxSize = 32 << 10

// Info is what a ClientHello says.
type Info struct {
	ServerName string   // empty if it names none
	Protocols  []string // offered by ALPN
}

// Errors of Read.
var (
	ErrNotTLS = errors.New("not a TLS ClientHello")
	ErrTooBig = errors.New("a ClientHello that does not end")
)

// Looks reports whether bytes may be the beginning of a TLS connection: a
// handshake record of any version.
func Looks(b []byte) bool {
	return len(b) >= 2 && b[0] == 22 && b[1] == 3
}

// Read reads a ClientHello from r. It returns, with or without an error, the
// bytes it read, to be passed on.
func Read(r io.Reader) (Info, []byte, error) {
	rec := &recorder{r: io.LimitReader(r, MaxSize)}
	var info Info
	seen := errors.New("seen")
	err := tls.Server(rec, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			info = Info{ServerName: h.ServerName, Protocols: h.SupportedProtos}
			return nil, seen
		},
	}).HandshakeContext(context.Background()) // who reads has set a deadline
	switch {
	case errors.Is(err, seen):
		return info, rec.bytes.Bytes(), nil
	case rec.err != nil && rec.err != io.EOF:
		return info, rec.bytes.Bytes(), rec.err
	case rec.bytes.Len() >= MaxSize:
		return info, rec.bytes.Bytes(), ErrTooBig
	}
	return info, rec.bytes.Bytes(), ErrNotTLS
}

// recorder is a connection that keeps what is read from it, and to which
// nothing can be written: alerts of the handshake we break off stay here.
type recorder struct {
	r     io.Reader
	bytes bytes.Buffer
	err   error
}

func (c *recorder) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.bytes.Write(b[:n])
	if err != nil {
		c.err = err
	}
	return n, err
}

func (*recorder) Write(b []byte) (int, error)      { return 0, io.ErrClosedPipe }
func (*recorder) Close() error                     { return nil }
func (*recorder) LocalAddr() net.Addr              { return nil }
func (*recorder) RemoteAddr() net.Addr             { return nil }
func (*recorder) SetDeadline(time.Time) error      { return nil }
func (*recorder) SetReadDeadline(time.Time) error  { return nil }
func (*recorder) SetWriteDeadline(time.Time) error { return nil }
