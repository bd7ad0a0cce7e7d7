package worktrees

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/wire"
)

// fakeInit answers questions with an error, or nil.
type fakeInit struct {
	err   error
	asked []wire.Worktrees
}

func (f *fakeInit) Ask(_ context.Context, q wire.InitAsk) (wire.InitReply, error) {
	f.asked = append(f.asked, q.Worktrees)
	return wire.InitReply{}, f.err
}

// TestUpdateAfterFailure checks that worktrees that init failed to learn are told again, and that
// each series of failures makes one event. A failed init is not asked again at once.
func TestUpdateAfterFailure(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, ".git", "worktrees", "one"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, ".git", "worktrees", "one", "gitdir"), nil, 0o644))
	synctest.Test(t, func(t *testing.T) {
		events := 0
		w := Search([]driver.Mount{{Source: dir, Target: "/w"}}, nil, nil, func(string, map[string]any) { events++ })
		init := &fakeInit{err: errors.New("init does not answer")}
		<-w.found
		w.init = init
		expect := func(what string, asked, told int) {
			t.Helper()
			if len(init.asked) != asked || events != told {
				t.Errorf("%s init was asked %d times with %d events, want %d and %d", what, len(init.asked), events, asked, told)
			}
		}
		w.tellInit(t.Context(), true)
		expect("at first", 1, 1)
		w.tellInit(t.Context(), false)
		expect("right after the failure", 1, 1)
		time.Sleep(retryPause)
		w.tellInit(t.Context(), false)
		expect("after a second failure", 2, 1)
		time.Sleep(retryPause)
		init.err = nil
		w.tellInit(t.Context(), false)
		expect("after a pause", 3, 1)
		w.tellInit(t.Context(), false)
		expect("after a success", 3, 1)
		if last := init.asked[2]; len(last.GitDirs) != 1 || last.GitDirs[0] != "/w/.git" {
			t.Errorf("init was told of %+v", last)
		}

		must(t, os.RemoveAll(filepath.Join(dir, ".git", "worktrees", "one")))
		init.err = errors.New("init does not answer")
		w.tellInit(t.Context(), false)
		expect("after a later failure", 4, 2)
	})
}
