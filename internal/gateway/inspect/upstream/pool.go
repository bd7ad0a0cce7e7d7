package upstream

import (
	"context"
	"sync"
	"time"
)

// pool keeps connections to servers that speak HTTP/1 between two requests. The
// zero pool is ready for use.
type pool struct {
	mu      sync.Mutex
	servers map[Host]*server
	idle    int
	sweeper *time.Timer // nil: nothing is idle
	closed  bool
}

// server is a server of the pool.
type server struct {
	idle   []*link // the one that was used last at the end
	http2  bool
	users  int           // requests that have a connection, or wait for one
	places chan struct{} // of requests that have a connection
}

// maxServers bounds the remembered servers without a request or a connection.
const maxServers = 1024

// enterServer waits until one more request may have a connection to a host. The caller has to leave
// again. It returns nil if the host speaks HTTP/2, and may.
func (p *pool) enterServer(ctx context.Context, h Host, only1 bool) (*server, error) {
	s := p.useServer(h, only1)
	if s == nil {
		return nil, nil
	}
	select {
	case s.places <- struct{}{}:
		return s, nil
	default:
	}
	select {
	case s.places <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		p.unuseServer(s)
		return nil, context.Cause(ctx)
	}
}

func (p *pool) leaveServer(s *server) {
	<-s.places
	p.unuseServer(s)
}

func (p *pool) useServer(h Host, only1 bool) *server {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.getServer(h)
	if s.http2 && !only1 {
		return nil
	}
	s.users++
	return s
}

func (p *pool) unuseServer(s *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.users--
}

func (p *pool) getServer(h Host) *server {
	if s := p.servers[h]; s != nil {
		return s
	}
	if p.servers == nil {
		p.servers = map[Host]*server{}
	}
	if len(p.servers) >= maxServers {
		for h, s := range p.servers {
			if s.users == 0 && len(s.idle) == 0 {
				delete(p.servers, h)
			}
		}
	}
	s := &server{places: make(chan struct{}, allPerHost)}
	p.servers[h] = s
	return s
}

// speaks2 notes which version a host speaks.
func (p *pool) speaks2(h Host, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.getServer(h).http2 = is
}

// takeIdle returns an idle connection on which the server has neither sent bytes nor hung up, or nil.
func (p *pool) takeIdle(s *server) *link {
	for {
		l := p.lastIdle(s)
		if l == nil || l.isQuiet() {
			return l
		}
		l.closeLink()
	}
}

func (p *pool) lastIdle(s *server) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(s.idle)
	if n == 0 {
		return nil
	}
	l := s.idle[n-1]
	s.idle[n-1] = nil
	s.idle = s.idle[:n-1]
	p.idle--
	return l
}

// putIdle keeps a connection, or closes it if there are too many.
func (p *pool) putIdle(l *link) {
	if !p.keepIdle(l) {
		l.closeLink()
	}
}

func (p *pool) keepIdle(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.idle >= idleAll || len(l.server.idle) >= idlePerHost {
		return false
	}
	l.since = time.Now()
	l.server.idle = append(l.server.idle, l)
	p.idle++
	if p.sweeper == nil {
		p.sweeper = time.AfterFunc(idleUpTime, p.sweepIdle)
	}
	return true
}

// sweepIdle closes connections that were idle for too long.
func (p *pool) sweepIdle() {
	old := time.Now().Add(-idleUpTime)
	p.dropIdle(func(l *link) bool { return !l.since.After(old) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sweeper = nil; p.idle > 0 && !p.closed {
		p.sweeper = time.AfterFunc(idleUpTime/2, p.sweepIdle)
	}
}

func (p *pool) closeIdle() { p.dropIdle(func(*link) bool { return true }) }

// dropIdle closes selected idle connections.
func (p *pool) dropIdle(which func(*link) bool) {
	p.mu.Lock()
	var list []*link
	for _, s := range p.servers {
		kept := s.idle[:0]
		for _, l := range s.idle {
			if which(l) {
				list = append(list, l)
			} else {
				kept = append(kept, l)
			}
		}
		clear(s.idle[len(kept):])
		s.idle = kept
	}
	p.idle -= len(list)
	p.mu.Unlock()
	for _, l := range list {
		l.closeLink()
	}
}

// closeAll closes all idle connections, and all that come back.
func (p *pool) closeAll() {
	p.mu.Lock()
	p.closed = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	p.mu.Unlock()
	p.closeIdle()
}
