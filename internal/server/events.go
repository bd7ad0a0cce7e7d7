package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/apitoken"
	"github.com/bothy-dev/bothy/internal/feed"
	"github.com/bothy-dev/bothy/spec"
)

func eventRoutes() []Route {
	return []Route{{
		Method: "GET", Pattern: "/v1/events", Scope: apitoken.Read, Limit: events, PerSandbox: true,
		Summary: "Follow the events of sandboxes, like bothy events; a client that comes back with Last-Event-ID misses nothing, or first gets an event gap",
		Query: []Param{
			{"sandbox", "only those of this sandbox", "string"},
			{"type", "only events of these kinds, with commas", "string"},
			{"since", "begin after this position, or at start; default now", "string"},
		},
		Stream: "text/event-stream", Part: "events whose id is a position, and whose data is a line of bothy events --json",
		handle: (*call).streamEvents,
	}}
}

// signOfLife is how often a stream without events says that it lives.
const signOfLife = 15 * time.Second

func (c *call) streamEvents() error {
	q := c.r.URL.Query()
	filter := feed.Filter{Sandbox: q.Get("sandbox")}
	if kinds := q.Get("type"); kinds != "" {
		filter.Kinds = strings.Split(kinds, ",")
	}
	since := feed.FromNow
	for _, text := range []string{q.Get("since"), c.r.Header.Get("Last-Event-ID")} {
		if text != "" {
			since = text
		}
	}
	if filter.Sandbox != "" {
		if _, err := c.engine.Find(filter.Sandbox); err != nil {
			return err
		}
	}
	f, err := feed.Open(c.server.Store, filter, since)
	if err != nil {
		return err
	}
	ctx, done := c.whileAllowed()
	defer done()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	defer context.AfterFunc(c.server.closing, func() { leave(errClosing) })()
	c.beginAnswer()
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.WriteHeader(http.StatusOK)
	s := &sse{c: c}
	if err := s.sendEvent(fmt.Sprintf("retry: 1000\nid: %s\n\n", f.Position())); err != nil {
		return nil
	}
	_ = feed.Follow(ctx, c.server.watch, f, signOfLife, func(list []feed.Event) error {
		var b strings.Builder
		for i := range list {
			fmt.Fprintf(&b, "id: %s\nevent: %s\ndata: %s\n\n", list[i].Position, kindName(list[i].Kind), list[i].JSON())
		}
		if len(list) == 0 {
			b.WriteString(": alive\n\n")
		}
		return s.sendEvent(b.String())
	})
	if cause := context.Cause(ctx); cause != nil && c.r.Context().Err() == nil { // the client is still there
		_ = s.sendEvent(fmt.Sprintf(": ended: %s\n\n", oneLine(spec.Advised(cause))))
	}
	return nil
}

// sse writes server-sent events.
type sse struct{ c *call }

// sendEvent sends text at once. A client that does not take it in time loses its connection.
func (s *sse) sendEvent(text string) error {
	rc := http.NewResponseController(s.c.w)
	_ = rc.SetWriteDeadline(time.Now().Add(s.c.server.patience.answer))
	if _, err := s.c.w.Write([]byte(text)); err != nil {
		return err
	}
	return rc.Flush()
}

// kindName returns the kind of an event as the name of a server-sent event.
func kindName(kind string) string {
	if kind == "" || strings.ContainsFunc(kind, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "event"
	}
	return kind
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
