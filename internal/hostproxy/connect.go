package hostproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// maxHead bounds a proxy's answer to CONNECT, in bytes.
const maxHead = 16 << 10

// Error is the reason why a proxy did not connect to a server.
type Error struct {
	Proxy  *Proxy
	Status int   // of the refusal; zero if it did not answer
	Err    error // why it did not answer
	To     string
}

// Error is the text for the host's user.
func (e *Error) Error() string {
	switch {
	case e.Status == 407 && e.Proxy.named:
		return fmt.Sprintf("the proxy %s does not accept the user and password in %s (407)", e.Proxy, e.Proxy.from)
	case e.Status == 407:
		return fmt.Sprintf("the proxy %s wants a user and a password (407): write them into %s", e.Proxy, e.Proxy.from)
	case e.Status != 0:
		return fmt.Sprintf("the proxy %s refuses CONNECT to %s: %d%s", e.Proxy, e.To, e.Status, e.advice())
	}
	return fmt.Sprintf("the proxy %s does not connect to %s: %v", e.Proxy, e.To, e.Err)
}

// Told is the text for programs inside: it does not name the proxy.
func (e *Error) Told() string {
	switch {
	case e.Status == 407:
		return "the host's proxy wants a user and a password (407)"
	case e.Status != 0:
		return fmt.Sprintf("the host's proxy refuses to connect to it (%d)%s", e.Status, e.advice())
	}
	return "the host's proxy does not answer"
}

// advice tells what to do about a port that the proxy may not connect to: most proxies connect only to
// port 443.
func (e *Error) advice() string {
	_, port, err := net.SplitHostPort(e.To)
	if err != nil || port == "443" || !e.Refused() {
		return ""
	}
	return fmt.Sprintf("; use https (port 443) instead, or have the proxy allow CONNECT to port %s", port)
}

func (e *Error) Unwrap() error { return e.Err }

// Refused reports whether the proxy works and its rules forbid this server.
func (e *Error) Refused() bool { return e.Status >= 400 && e.Status < 500 && e.Status != 407 }

// Final reports whether the proxy would answer the same for any other address: it does not answer at
// all, or requires a password. Only a timeout may be the server's fault.
func (e *Error) Final() bool {
	return e.Status == 407 || e.Status == 0 && !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, os.ErrDeadlineExceeded)
}

// Fail returns the Error for a proxy that could not be asked for a server.
func (p *Proxy) Fail(to string, err error) *Error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
		if call, ok := errors.AsType[*os.SyscallError](err); ok {
			err = call.Err
		}
	}
	return &Error{Proxy: p, To: to, Err: err}
}

// Connect asks the proxy at the other end of a connection to connect to a server, given as HOST:PORT. It
// does not read the server's data. It ends with its context.
func (p *Proxy) Connect(ctx context.Context, c net.Conn, to string) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	status, err := p.askProxy(c, to)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return p.Fail(to, context.Cause(ctx))
	case err != nil:
		return p.Fail(to, err)
	case status < 200 || status > 299:
		return &Error{Proxy: p, To: to, Status: status}
	}
	return nil
}

func (p *Proxy) askProxy(c net.Conn, to string) (status int, err error) {
	head := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\nUser-Agent: bothy\r\n"
	if a := p.Authorization(); a != "" {
		head += "Proxy-Authorization: " + a + "\r\n"
	}
	if _, err := c.Write([]byte(head + "\r\n")); err != nil {
		return 0, err
	}
	for room := maxHead; ; {
		text, err := readHead(c, room)
		if err != nil {
			return 0, err
		}
		if status, err = parseStatus(text); err != nil || status >= 200 {
			return status, err
		}
		room -= len(text) // an interim answer
	}
}

var (
	errLong    = errors.New("the head of its answer is too long")
	errNotHTTP = errors.New("its answer is not HTTP")
)

// readHead reads up to an empty line, and not one byte more: the bytes after it are the server's.
func readHead(c net.Conn, room int) (string, error) {
	var head []byte
	for len(head) < room {
		var b [1]byte
		if n, err := c.Read(b[:]); n == 0 {
			if err == nil {
				continue
			}
			return "", err
		}
		head = append(head, b[0])
		if len(head) <= len("HTTP/1.") && !strings.HasPrefix("HTTP/1.", string(head)) {
			return "", errNotHTTP
		}
		if text := string(head[max(0, len(head)-4):]); text == "\r\n\r\n" || strings.HasSuffix(text, "\n\n") {
			return string(head), nil
		}
	}
	return "", errLong
}

// parseStatus reads the number in a line like "HTTP/1.1 200 Connection established".
func parseStatus(head string) (int, error) {
	line, _, _ := strings.Cut(head, "\n")
	_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimLeft(rest, " ")
	n := 0
	for i := range 3 {
		if i >= len(rest) || rest[i] < '0' || rest[i] > '9' {
			return 0, errNotHTTP
		}
		n = n*10 + int(rest[i]-'0')
	}
	if n < 100 || len(rest) > 3 && rest[3] != ' ' {
		return 0, errNotHTTP
	}
	return n, nil
}
