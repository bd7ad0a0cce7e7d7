package keeper

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/audit"
	"github.com/bothy-dev/bothy/internal/keeper/keepertest"
	"github.com/bothy-dev/bothy/internal/keeper/session"
	"github.com/bothy-dev/bothy/internal/wire"
)

// TestMemoryShortLog checks that a sandbox that fills its memory, and names programs that cannot be
// ended, does not fill the host's disk with the keeper's log.
func TestMemoryShortLog(t *testing.T) {
	for name, tt := range map[string]struct {
		says wire.InitReply
		kill error
	}{
		"no such program": {wire.InitReply{PID: 9}, errors.New("there is none")},
		"long words":      {wire.InitReply{Error: strings.Repeat("x", wire.MaxPayload/2)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l, in := connectInit(t)
			in.Hello()
			go in.Answers(tt.says)
			var said bytes.Buffer
			k := &Keeper{link: l, wall: &wall{kill: tt.kill}, log: slog.New(slog.NewTextHandler(&said, nil))}
			ctx, cancel := context.WithCancel(t.Context())
			looks := 0
			k.guard(ctx, 100, func() (int64, bool) {
				if looks++; looks == 5 {
					cancel()
				}
				return 99, true
			})
			if n := strings.Count(said.String(), "\n"); n != 1 || said.Len() > 4<<10 {
				t.Errorf("%d lines, %d bytes after %d looks: %.200s", n, said.Len(), looks, said.String())
			}
		})
	}
}

// TestMemoryShortNotes checks that a note shortens init's name for an ended program, as a person reads it.
func TestMemoryShortNotes(t *testing.T) {
	l, in := connectInit(t)
	in.Hello()
	go in.Answers(wire.InitReply{PID: 9, Command: strings.Repeat("\x00", wire.MaxPayload/8)})
	k := bare()
	events, err := audit.Open(filepath.Join(t.TempDir(), "events.jsonl"), audit.Options{})
	must(t, err)
	k.events = events
	k.link, k.wall, k.sessions = l, &wall{}, session.NewTable()
	s := session.Direct(keepertest.NewProgram(), session.Ending{})
	k.sessions.Add(s, session.KindExec, wire.Command{}, 9)
	must(t, k.killLargest(t.Context(), 99, 100))
	ours, theirs := keepertest.Conns(t)
	go func() { _ = s.TellEnd(ours) }()
	if f, err := theirs.Receive(); err != nil || f.Kind != wire.Note || len(f.Payload) > 2<<10 {
		t.Errorf("it is told %d bytes of kind %d, %v", len(f.Payload), f.Kind, err)
	}
}
