package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/wire"
)

// TestHostChangesOfHostileInit has init name directories that do not exist, and more than allowed. It
// checks that the keeper stops asking, and that the log does not fill up.
func TestHostChangesOfHostileInit(t *testing.T) {
	l, in := connect(t)
	log := filepath.Join(t.TempDir(), "events.jsonl")
	events, err := audit.Open(log, audit.Options{})
	must(t, err)
	k := &Keeper{link: l, events: events, log: quiet(), built: driver.Machine{Mounts: []driver.Mount{{Source: t.TempDir(), Target: "/w"}}}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.tellHostChanges(ctx) }()
	in.hello()
	var q wire.InitAsk
	must(t, in.hear().Decode(&q))
	r := wire.InitReply{ID: q.ID}
	for i := range maxHostDirs {
		r.Watched = append(r.Watched, fmt.Appendf(nil, "/w/none%d", i))
	}
	in.json(wire.Reply, 0, r)
	_ = in.sock.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	if f, err := wire.Read(in.sock); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("init is asked again: %s, %v", f.Payload, err)
	}
	cancel()
	within(t, "the watcher", func() { <-done })
	must(t, events.Close())
	text, err := os.ReadFile(log)
	if n := bytes.Count(text, []byte("watch.failed")); err != nil || n != 1 {
		t.Errorf("%d events of failed watches, %v", n, err)
	}
}
