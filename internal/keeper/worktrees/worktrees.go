// Package worktrees keeps git inside from deleting its records of worktrees that only the host has.
package worktrees

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/wire"
)

// Guard keeps git inside from deleting its records of linked worktrees that only the host has:
// "git worktree prune", and gc, delete the HEAD and the index of each one whose directory is
// missing. Init puts a placeholder at the path of each such worktree.
// The keeper only reads the host's files here, beneath the shared directories. It finds their
// git directories, and notices changes to the lists of worktrees.
type Guard struct {
	log   *slog.Logger
	event func(kind string, fields map[string]any) // writes an event of the sandbox
	init  asker                                    // set by Protect, before any program runs

	mounts  []wire.Place
	shared  []searchedDir  // set before found is closed
	found   chan struct{}  // closed when dirs is set
	signals chan os.Signal // receives when a list changes; nil: lists are polled
	asked   chan struct{}  // receives when a command begins

	mu      sync.Mutex // guards all below; also held while init is told, so that it learns the lists in order
	dirs    []gitDir
	known   string        // the lists that init was told
	lists   signalledDirs // the lists, and the directories above them
	entries signalledDirs // the entries of the lists
	// failed is the error of the last question, empty after a success: init may or may not have
	// carried it out. failedAt is when it failed.
	failed   string
	failedAt time.Time
}

// asker asks init.
type asker interface {
	Ask(context.Context, wire.InitAsk) (wire.InitReply, error)
}

const (
	searchPatience = 5 * time.Second // how long a start waits for the search
	pollEvery      = time.Second
	changePause    = 50 * time.Millisecond // changes within it are handled at once
	checkShare     = 10                    // checks take at most a tenth of the time
	searchDelay    = time.Second / 4       // a search waits this long for a new command to start
	searchPause    = time.Second           // between two searches for git directories, at least
	searchShare    = 100                   // searches take at most a hundredth of the time

	// retryPause is how long the keeper waits to ask again an init that failed: a root process inside
	// can stop init, and each command would wait for the answer.
	retryPause = 30 * time.Second

	// maxSignalledDirs bounds how many directories are open for their signals, for lists and for
	// their entries. A program inside can make new ones without end.
	maxSignalledDirs = 256
)

// Search starts to look for git directories beneath the mounts.
func Search(mounts []driver.Mount, places []wire.Place, log *slog.Logger, event func(kind string, fields map[string]any)) *Guard {
	w := &Guard{
		log: log, event: event, mounts: places, found: make(chan struct{}), asked: make(chan struct{}, 1),
		lists: signalledDirs{most: maxSignalledDirs}, entries: signalledDirs{most: maxSignalledDirs},
	}
	var shared []driver.Mount
	for _, m := range mounts {
		if !m.Memory && !m.Exclusive && !m.ReadOnly {
			shared = append(shared, m)
		}
	}
	go func() {
		defer close(w.found)
		w.shared = openShared(shared)
		w.dirs = findGitDirs(w.shared)
	}()
	return w
}

// Protect makes the placeholders before any program runs. If programs continue from memory, fresh is
// false and their placeholders stay. A nil Guard protects nothing.
func (w *Guard) Protect(init asker, fresh bool) {
	if w == nil {
		return
	}
	w.init = init
	select {
	case <-w.found:
	case <-time.After(searchPatience):
		w.event("worktrees.unprotected", map[string]any{"error": "the search for git directories takes too long"})
		return
	}
	if len(w.shared) == 0 {
		return
	}
	if w.signals = notifyChanges(); w.signals == nil {
		w.log.Warn("watch for new worktrees: this kernel has no dnotify; they are polled")
	}
	w.tellInit(context.Background(), fresh)
}

// hasShared reports whether the search is done and found shared directories.
func (w *Guard) hasShared() bool {
	select {
	case <-w.found:
		return len(w.shared) > 0
	default:
		return false
	}
}

// tellInit tells init of the worktrees, unless init knows the same ones.
func (w *Guard) tellInit(ctx context.Context, fresh bool) {
	if !w.hasShared() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != "" && time.Since(w.failedAt) < retryPause {
		return
	}
	var text strings.Builder
	ask := wire.Worktrees{Mounts: w.mounts, Fresh: fresh}
	for _, d := range w.dirs {
		if hostpath.Answers(d.root.Name()) != nil {
			return // the known ones stay
		}
		list := w.describeList(d)
		if list != "" {
			fmt.Fprintf(&text, "%s\n%s", d.inside, list)
		}
		if list != "" || w.mayHavePlaceholders() {
			ask.GitDirs = append(ask.GitDirs, d.inside)
		}
	}
	w.lists.keepSeen()
	w.entries.keepSeen()
	if text.String() == w.known && w.failed == "" {
		return
	}
	if _, err := w.init.Ask(ctx, wire.InitAsk{Ask: wire.AskWorktrees, Worktrees: ask}); err != nil {
		if w.failed == "" { // once in a row: the inside must not fill the log
			w.event("worktrees.unprotected", map[string]any{"error": err.Error()})
		}
		w.failed, w.failedAt = err.Error(), time.Now()
		return
	}
	w.known, w.failed = text.String(), ""
}

// mayHavePlaceholders reports whether init has made placeholders, or may have done so before it failed.
func (w *Guard) mayHavePlaceholders() bool { return w.known != "" || w.failed != "" }

// Follow tells init of changes on the host until the sandbox ends. It returns early if
// nothing is to be followed.
func (w *Guard) Follow(ctx context.Context) {
	if w == nil || !w.hasShared() {
		return
	}
	var poll <-chan time.Time
	if w.signals == nil {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		poll = tick.C
	}
	var due <-chan time.Time // of the next search, while something has changed since the last
	next, pause := time.Now().Add(searchPause), changePause
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll:
		case <-w.asked:
			if due == nil {
				due = time.After(max(searchDelay, time.Until(next)))
			}
			continue
		case <-due:
		case <-w.signals:
			time.Sleep(pause)
		}
		began := time.Now()
		if began.Before(next) {
			due = time.After(next.Sub(began))
		} else {
			w.searchAgain()
			next, due = time.Now().Add(max(searchPause, searchShare*time.Since(began))), nil
		}
		began = time.Now()
		w.tellInit(ctx, false)
		if due == nil && w.hasFailed() {
			due = time.After(retryPause) // no signal says when init is well again
		}
		pause = max(changePause, checkShare*time.Since(began))
	}
}

// hasFailed reports whether init failed at the last question.
func (w *Guard) hasFailed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed != ""
}

// searchAgain adds git directories that were made since the last search.
func (w *Guard) searchAgain() {
	for _, d := range w.shared {
		if hostpath.Answers(d.root.Name()) != nil {
			return
		}
	}
	found := findGitDirs(w.shared)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirs = addNewDirs(w.dirs, found)
}

// BeginCommand tells init of the worktrees before a command, and starts a search for new
// repositories.
func (w *Guard) BeginCommand(ctx context.Context) {
	if w == nil {
		return
	}
	w.tellInit(ctx, false)
	select {
	case w.asked <- struct{}{}:
	default:
	}
}

// describeList describes the registered worktrees; the text differs after each change. It adds the
// directories that signal the next change to the signalled ones. Changes beyond their limit are
// seen with the next command.
func (w *Guard) describeList(d gitDir) string {
	w.watchAbove(d)
	fd, err := openBeneath(d.root, d.rel+"/worktrees", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return ""
	}
	w.lists.watchDir(fd, dnNames)
	f := os.NewFile(uintptr(fd), "worktrees")
	defer f.Close()
	names, _ := f.Readdirnames(wire.MaxWorktrees)
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		id, err := openBeneath(f, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			continue
		}
		w.entries.watchDir(id, dnNames|dnModify)
		var st unix.Stat_t
		if unix.Fstatat(id, "gitdir", &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			fmt.Fprintf(&text, "%q %d %d %d.%09d\n", name, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec)
		}
		unix.Close(id)
	}
	return text.String()
}

// watchAbove watches for the list of worktrees, or a directory above it, to be made or replaced.
func (w *Guard) watchAbove(d gitDir) {
	for _, rel := range []string{".", d.rel, d.rel + "/modules"} {
		if fd, err := openBeneath(d.root, rel, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
			w.lists.watchDir(fd, dnNames)
			unix.Close(fd)
		}
	}
}

// RemoveAll removes the placeholders when programs have ended: saved ones would outlive their
// worktrees.
func (w *Guard) RemoveAll() {
	if w == nil || !w.hasShared() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.mayHavePlaceholders() {
		return
	}
	if _, err := w.init.Ask(context.Background(), wire.InitAsk{Ask: wire.AskWorktrees}); err != nil {
		w.log.Warn("remove placeholders of worktrees", "err", err)
	}
}
