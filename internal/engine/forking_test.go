package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestHalfFork checks that a fork is incomplete until its programs resume in it. No command starts
// it before, and it is removed if its creator was killed. A fork that was started has work in it, and
// stays.
func TestHalfFork(t *testing.T) {
	e := newEngine(t)
	maker := &Engine{Store: e.Store, Agents: e.Agents}
	for _, name := range []string{"half", "started", "whole"} {
		fork := wish("")
		fork.Name = name
		must(t, maker.AddCopy(t.Context(), fork, nil, maker.MarkFork(fork)))
		if _, err := e.Connect(t.Context(), fork); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "is being forked") {
			t.Errorf("while it is made: %v", err)
		}
		e.Sweep()
		switch name {
		case "started":
			now := time.Now()
			must(t, store.WriteJSON(e.Store.Sandbox(fork.ID).Status(), spec.Status{State: spec.Stopped, StartedAt: &now}))
			maker.reserved.release(fork.ID)
		case "whole":
			must(t, maker.FinishFork(fork))
		default:
			maker.reserved.release(fork.ID) // the kernel does that for a killed creator
			if _, err := e.Connect(t.Context(), fork); !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "half a fork") {
				t.Errorf("half made: %v", err)
			}
		}
	}
	e.Sweep()
	if got := names(t, e); !slices.Equal(got, []string{"started", "whole"}) {
		t.Errorf("there are %q", got)
	}
}
