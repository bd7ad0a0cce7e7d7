package gateway

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/advice"
	"github.com/bothy-dev/bothy/internal/gateway/inspect"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/netstack"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/wire"
)

// maxLocal bounds the connections to the gateway itself.
const maxLocal = 256

// serveLocal answers connections to the gateway itself: name queries, questions why something was
// refused and, if one is expected, a connection that init makes.
func (g *Gateway) serveLocal(a *netstack.Attempt) {
	port := a.To.Port()
	if port == meetPort {
		g.inside.meetings.arrive(a)
		return
	}
	if port == wire.AgentPort {
		g.agents.serveAttempt(a)
		return
	}
	if port != 53 && port != 80 {
		g.journal.nothingThere(a)
		return
	}
	defer g.locals.Add(-1)
	if g.locals.Add(1) > maxLocal {
		g.journal.refuseLocal(a, fmt.Sprintf("%d connections to the sandbox's own gateway are open already", maxLocal))
		return
	}
	c, err := a.Accept()
	if err != nil {
		return
	}
	if port == 80 {
		_ = g.inspector.Serve(g.life.ctx, c, nil, upstream.Host{Name: advice.Name, Port: port}, &relay.Counts{}, &inspect.Track{})
		return
	}
	defer func() { _ = c.Close() }()
	g.serveNames(c)
}

// Limits of one conversation with the name server.
const (
	nameIdle = 10 * time.Second
	nameMost = 100     // questions
	nameSize = 4 << 10 // bytes of one question; memory is taken before it arrives
)

// serveNames answers questions over TCP: each message has its length before it. A truncated message is
// recorded as unreadable.
func (g *Gateway) serveNames(c *netstack.Conn) {
	unread := func(why string) { zone{g}.Refused("", "a question of DNS over TCP "+why) }
	for range nameMost {
		_ = c.SetDeadline(time.Now().Add(nameIdle))
		var length [2]byte
		if read, err := io.ReadFull(c, length[:]); err != nil {
			if read > 0 {
				unread("that breaks off")
			}
			return
		}
		n := binary.BigEndian.Uint16(length[:])
		if n > nameSize {
			unread(fmt.Sprintf("that has more than %d bytes", nameSize))
			return
		}
		q := make([]byte, n)
		if _, err := io.ReadFull(c, q); err != nil {
			unread("that breaks off")
			return
		}
		answer := g.server.Answer(q, true)
		if answer == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}
