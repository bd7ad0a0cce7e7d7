package listen

import (
	"net"
	"sync"
	"time"
)

// tooMany is the answer to a connection beyond the limit.
const tooMany = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n" +
	"\r\n" + `{"error":{"code":"busy","why":"too many connections are open","next":["try again later"],"exit":1}}` + "\n"

// tooManyTime bounds sending it.
const tooManyTime = time.Second

// Limit returns a listener that answers connections beyond the largest number itself.
func Limit(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, free: make(chan struct{}, most), refused: make(chan struct{}, 16)}
}

type limited struct {
	net.Listener
	free    chan struct{} // holds an element for each open connection
	refused chan struct{} // likewise for each that is being refused
}

// Accept returns the next connection within the limit.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.free <- struct{}{}:
			return &counted{Conn: c, release: func() { <-l.free }}, nil
		default:
			l.refuse(c)
		}
	}
}

func (l *limited) refuse(c net.Conn) {
	select {
	case l.refused <- struct{}{}:
	default:
		c.Close()
		return
	}
	go func() {
		defer func() { <-l.refused }()
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(tooManyTime))
		_, _ = c.Write([]byte(tooMany))
	}()
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	once    sync.Once
	release func()
}

// Close closes the connection.
func (c *counted) Close() error {
	c.once.Do(c.release)
	return c.Conn.Close()
}
