package hostchanges

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/wire"
)

// TestHostChangesOfHostileInit has init name directories that do not exist, and more than allowed. It
// checks that the keeper stops asking, and that the log does not fill up.
func TestHostChangesOfHostileInit(t *testing.T) {
	l, in := connectInit(t)
	failures := 0
	h := New([]driver.Mount{{Source: t.TempDir(), Target: "/w"}}, l, slog.New(slog.DiscardHandler), func(kind string, _ map[string]any) {
		if kind == "watch.failed" {
			failures++
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.Follow(ctx) }()
	in.Hello()
	var q wire.InitAsk
	must(t, in.Hear().Decode(&q))
	r := wire.InitReply{ID: q.ID}
	for i := range maxHostDirs {
		r.Watched = append(r.Watched, fmt.Appendf(nil, "/w/none%d", i))
	}
	in.JSON(wire.Reply, 0, r)
	_ = in.Sock.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	if f, err := wire.Read(in.Sock); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("init is asked again: %s, %v", f.Payload, err)
	}
	cancel()
	keepertest.Within(t, "the watcher", func() { <-done })
	if failures != 1 {
		t.Errorf("%d events of failed watches", failures)
	}
}
