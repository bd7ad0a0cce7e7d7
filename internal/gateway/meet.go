package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/namepool"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/wire"
)

// A server that listens on the inside's loopback cannot be reached over the card, but init can reach it.
// The gateway asks init to connect to the server, and to come back with a second connection to the
// gateway, which stands for the first. That connection proves its purpose by a key. Any program inside
// may try: at most it answers in the place of a server that belongs to the inside anyway.
const (
	meetPort = 54 // of the gateway's address
	keySize  = 26
	meetTime = 10 * time.Second
	maxMeets = 64 // connections that have not sent their key
)

// inside connects to servers inside.
type inside struct {
	stack    *netstack.Stack
	join     func(context.Context, wire.Join) error // asks init for servers on the loopback; may be nil
	meetings meetings
}

// meetings are the expected connections.
type meetings struct {
	mu      sync.Mutex
	waiting map[string]chan *netstack.Conn
	silent  int // connections that have not sent their key
}

// meetInit makes init connect to a port of the inside's loopback.
func (i *inside) meetInit(ctx context.Context, port uint16) (*netstack.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, meetTime)
	defer cancel()
	key := rand.Text()
	came := i.meetings.awaitKey(key)
	defer i.meetings.forget(key)
	err := i.join(ctx, wire.Join{Port: port, To: netip.AddrPortFrom(namepool.Gateway4, meetPort), Key: key})
	if err != nil {
		return nil, err
	}
	select {
	case c := <-came:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (m *meetings) awaitKey(key string) chan *netstack.Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == nil {
		m.waiting = map[string]chan *netstack.Conn{}
	}
	m.waiting[key] = make(chan *netstack.Conn, 1)
	return m.waiting[key]
}

// forget ends the wait. It resets a connection that came too late.
func (m *meetings) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	came := m.waiting[key]
	delete(m.waiting, key)
	select {
	case c := <-came:
		c.Reset()
	default:
	}
}

// arrive accepts a connection if one is expected.
func (m *meetings) arrive(a *netstack.Attempt) {
	if !m.enterSilent() {
		return
	}
	c, err := a.Accept()
	if err == nil {
		err = m.introduce(c)
	}
	m.mu.Lock()
	m.silent--
	m.mu.Unlock()
	if err != nil && c != nil {
		c.Reset()
	}
}

func (m *meetings) enterSilent() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 || m.silent >= maxMeets {
		return false
	}
	m.silent++
	return true
}

// introduce reads the key and hands the connection over.
func (m *meetings) introduce(c *netstack.Conn) error {
	key := make([]byte, keySize)
	_ = c.SetReadDeadline(time.Now().Add(meetTime))
	if _, err := io.ReadFull(c, key); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Time{})
	m.mu.Lock()
	defer m.mu.Unlock()
	came := m.waiting[string(key)]
	if came == nil {
		return errors.New("no client waits for it")
	}
	select {
	case came <- c:
		return nil
	default:
		return errors.New("another came before")
	}
}
