// Package server is the HTTP API of bothy serve. Each call is one function below the surfaces, which the
// command line calls, too; this package turns requests into such calls, and results into answers. It holds
// no state: killed at any moment, nothing is lost.
package server

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/app"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/feed"
	"github.com/bothy-dev/bothy/internal/server/listen"
	"github.com/bothy-dev/bothy/internal/server/once"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Server answers requests for one state directory.
type Server struct {
	// Store is the state directory.
	Store *store.Store
	// Claims returns the sandboxes that runs need: see [app.Options].
	Claims func(*engine.Engine) (map[string]string, error)
	// Log receives a text for the person who started the server.
	Log func(text string)

	patience patience // zero: usualPatience
	tokens   *apitoken.Book
	answers  *once.Records
	watch    *feed.Watch
	slots    map[kind]chan struct{}
	closing  context.Context // ends when the server begins to end
	requests context.Context // ends when requests under way are cancelled
}

// patience is how long a client may take.
type patience struct {
	header time.Duration // to send the header of a request
	idle   time.Duration // between two requests
	body   time.Duration // to send a document
	answer time.Duration // to take an answer, or a part of a stream
	end    time.Duration // to be answered, when the server ends; and again when its request was cancelled
}

var usualPatience = patience{header: 10 * time.Second, idle: 2 * time.Minute, body: 30 * time.Second, answer: time.Minute, end: 10 * time.Second}

// Bounds of one header, and of the connections of a socket.
const (
	maxHeader = 32 << 10
	maxConns  = 4096
)

// Serve answers requests over sockets until ctx ends. Then it accepts no more, ends the streams, and waits a
// while for the other requests.
func (s *Server) Serve(ctx context.Context, sockets []*listen.Socket) error {
	s.tokens = apitoken.Open(s.Store)
	s.answers = &once.Records{Dir: s.Store.API() + "/answers", Now: time.Now}
	s.slots = newSlots()
	s.watch = &feed.Watch{Store: s.Store}
	if s.patience == (patience{}) {
		s.patience = usualPatience
	}
	var end context.CancelCauseFunc
	s.closing, end = context.WithCancelCause(context.Background())
	defer end(errClosing)
	var cancel context.CancelCauseFunc
	s.requests, cancel = context.WithCancelCause(context.Background())
	defer cancel(errClosing)
	var all sync.WaitGroup
	errs := make(chan error, len(sockets))
	var servers []*http.Server
	for _, socket := range sockets {
		hs := s.httpServer(socket)
		servers = append(servers, hs)
		l := listen.Limit(socket, maxConns)
		all.Go(func() { errs <- hs.Serve(l) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-errs:
	}
	end(errClosing)
	s.shutDown(servers, cancel)
	all.Wait()
	for _, socket := range sockets {
		socket.Release()
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// errClosing is the reason for the end of streams when the server ends.
var errClosing = errors.New("the server ends")

// shutDown ends the servers: first kindly, then by cancelling the requests, and at last by closing their
// connections.
func (s *Server) shutDown(servers []*http.Server, cancel context.CancelCauseFunc) {
	var all sync.WaitGroup
	for _, hs := range servers {
		all.Go(func() {
			for range 2 {
				ctx, done := context.WithTimeout(context.Background(), s.patience.end)
				err := hs.Shutdown(ctx)
				done()
				if err == nil {
					return
				}
				cancel(errClosing)
			}
			_ = hs.Close()
		})
	}
	all.Wait()
}

func (s *Server) httpServer(socket *listen.Socket) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           s.handler(&socket.Site),
		ReadHeaderTimeout: s.patience.header, IdleTimeout: s.patience.idle, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, // every request passes the guard
		Protocols:                    protocols,
		BaseContext:                  func(net.Listener) context.Context { return s.requests },
		ErrorLog:                     log.New(io.Discard, "", 0), // lines that any client could cause
	}
}

// openEngine opens the state directory for one request.
func (s *Server) openEngine(note func(string)) (*engine.Engine, settings.Settings, error) {
	set, err := settings.Load(note)
	if err != nil {
		return nil, set, err
	}
	return app.OpenIn(s.Store, app.Options{Settings: set, Note: note, Claims: s.Claims}), set, nil
}

// recoverPanic turns a fault of this program into an answer.
func (s *Server) recoverPanic(c *call) {
	fault := recover()
	if fault == nil {
		return
	}
	if err, ok := fault.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(fault)
	}
	s.Log("fault in " + c.route.Method + " " + c.route.Pattern + ":\n" + string(debug.Stack()))
	c.answerError(spec.Errorf(nil, "the server has a fault here").WithHint("it is described on the standard error of bothy serve"))
}
