package shortage

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

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
			g := New(Options{Limit: 100, Init: l, Wall: fakeWall{tt.kill}, Log: slog.New(slog.NewTextHandler(&said, nil))})
			ctx, cancel := context.WithCancel(t.Context())
			looks := 0
			g.watchUse(ctx, func() (int64, bool) {
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
	var notes []string
	g := New(Options{
		Limit: 100, Init: l, Wall: fakeWall{},
		Event: func(string, map[string]any) {}, Tell: func(text string) { notes = append(notes, text) },
	})
	must(t, g.killLargest(t.Context(), 99))
	if len(notes) != 1 || len(notes[0]) > 2<<10 {
		t.Errorf("%d notes of %d bytes", len(notes), len(notes[0]))
	}
}

// fakeWall is a wall whose signals have one result.
type fakeWall struct{ kill error }

func (fakeWall) CPU() time.Duration                       { return 0 }
func (fakeWall) Memory(context.Context) (int64, error)    { return 0, nil }
func (w fakeWall) Signal(context.Context, int, int) error { return w.kill }

func TestNear(t *testing.T) {
	const mib = 1 << 20
	tests := []struct {
		current, limit int64
		want           bool
	}{
		{100, 0, false},
		{100, -1, false},
		{0, 100 * mib, false},
		{91 * mib, 100 * mib, true},
		{89 * mib, 100 * mib, false}, // no headroom in a small sandbox
		{985 * mib, 1024 * mib, true},
		{980 * mib, 1024 * mib, true},
		{900 * mib, 1024 * mib, false},
		{2000 * mib, 1024 * mib, true},
	}
	for _, tt := range tests {
		if got := isNear(tt.current, tt.limit); got != tt.want {
			t.Errorf("%d of %d MiB is near: %t", tt.current/mib, tt.limit/mib, got)
		}
	}
}

// TestUntilHalf checks that the keeper looks often enough to see memory use beyond half of the limit
// before it grows by another half, however fast it grows.
func TestUntilHalf(t *testing.T) {
	for _, tt := range []struct {
		used, limit int64
		want        time.Duration
	}{
		{0, 128 << 20, memoryPoll},
		{0, 8 << 30, 500 * time.Millisecond},
		{2 << 30, 8 << 30, 250 * time.Millisecond},
		{4<<30 - 1, 8 << 30, memoryPoll},
		{4<<30 + 1, 8 << 30, memoryHurry},
		{9 << 30, 8 << 30, memoryHurry},
		{0, 1 << 40, memoryIdle},
		{0, math.MaxInt64, memoryIdle},
	} {
		if got := untilHalf(tt.used, tt.limit); got != tt.want {
			t.Errorf("%d of %d: %s, want %s", tt.used, tt.limit, got, tt.want)
		}
	}
}
