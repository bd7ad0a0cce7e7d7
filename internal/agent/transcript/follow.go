package transcript

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Read reports the events of a session so far. An incomplete line at the end is reported as cut short.
func (s *Sessions) Read(ctx context.Context, one Session, tell func(spec.TranscriptEvent) error) error {
	if s.database != nil {
		return s.rowTail(one, tell).readSession(ctx)
	}
	f, err := s.open(one.File)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r := NewReader(s.rules, tell)
	if err := copyLines(r, io.LimitReader(untilDone{ctx, f}, info.Size())); err != nil && !errors.Is(err, errEndless) { // it may grow for ever
		return err
	}
	return r.Close()
}

// maxSkipped bounds, in bytes, the search for the end of a line that is too long. The
// reader does not wait for text beyond it.
const maxSkipped = 64 << 20

var errEndless = errors.New("a line does not end")

// copyLines writes all available data to a reader. The error is errEndless for a line that was
// reported as too long, and did not end.
func copyLines(r *Reader, from io.Reader) error {
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if _, werr := r.Write(piece[:n]); werr != nil {
			return werr
		}
		if r.dropped > maxSkipped {
			if err := r.endLine(); err != nil {
				return err
			}
			return errEndless
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Intervals at which a waiting reader checks: for more data, and for another session.
const (
	pollEvery = 200 * time.Millisecond
	lookEvery = time.Second
)

// Follow is Read that waits for more, until ctx is done or tell returns an error, and returns the error
// of either. With next it continues with the next session that begins. If one is the zero Session, it
// waits for the first.
func (s *Sessions) Follow(ctx context.Context, one Session, next bool, tell func(spec.TranscriptEvent) error) error {
	another := func() (Session, error) { return Session{}, nil }
	if next {
		known, looked := map[string]int64{}, time.Now()
		if err := s.recordKnown(ctx, known, one); err != nil {
			return err
		}
		another = func() (Session, error) {
			if time.Since(looked) < lookEvery {
				return Session{}, nil
			}
			looked = time.Now()
			return s.nextSession(ctx, known, one.speaks)
		}
	}
	for {
		then, err := s.follow(ctx, one, another, tell)
		if err != nil {
			return err
		}
		one = then
	}
}

// isKnown is the value in the map of known sessions for one that is followed, or existed before. Any
// other value is the size of a session in which nothing was understood.
const isKnown = -1

// recordKnown records the existing sessions other than the followed one. A session that changed since then may
// still report something, so it is not recorded.
func (s *Sessions) recordKnown(ctx context.Context, known map[string]int64, one Session) error {
	if one.File == "" {
		return nil
	}
	all, err := s.findSessions(ctx)
	for _, other := range all {
		if s.database != nil || !one.speaks || !other.Changed.After(one.Changed) || other.identity() == one.identity() {
			known[other.identity()] = isKnown
		}
	}
	return err
}

// identity identifies a session, before its content is read.
func (s *Session) identity() string { return s.File + "\x00" + s.ID }

// nextSession returns a session that was not known, and records it. It returns the zero Session if there is
// none. If speaks is set, a file in which nothing is understood does not count: anybody may have put it
// there.
func (s *Sessions) nextSession(ctx context.Context, known map[string]int64, speaks bool) (Session, error) {
	all, err := s.findSessions(ctx)
	if err != nil && !errors.Is(err, spec.ErrNotFound) { // the table may still be created
		return Session{}, err
	}
	for _, one := range slices.Backward(all) {
		key := one.identity()
		if was, ok := known[key]; ok && (was == isKnown || was == one.Bytes) {
			continue
		}
		one, err := s.describeOne(ctx, one)
		switch {
		case err == nil && speaks && s.database == nil && !one.speaks:
			known[key] = one.Bytes
		case err == nil:
			known[key] = isKnown
			return one, nil
		case s.database != nil && !errors.Is(err, spec.ErrNotFound):
			return Session{}, err
		}
	}
	return Session{}, ctx.Err()
}

// tail is a session that is read continuously.
type tail interface {
	reportNew(ctx context.Context) error // reports new events
	finish(ctx context.Context) error    // the same, for the last time
	close()
}

func (s *Sessions) newTail(one Session, tell func(spec.TranscriptEvent) error) tail {
	if s.database != nil {
		return s.rowTail(one, tell)
	}
	return &fileTail{s: s, name: one.File, tell: tell, r: NewReader(s.rules, tell)}
}

// follow reads one session until another one begins.
func (s *Sessions) follow(ctx context.Context, one Session, another func() (Session, error), tell func(spec.TranscriptEvent) error) (Session, error) {
	t := s.newTail(one, tell)
	defer t.close()
	for {
		if one.File != "" {
			if err := t.reportNew(ctx); err != nil {
				return Session{}, err
			}
		}
		then, err := another()
		if err != nil {
			return Session{}, err
		}
		if then.File != "" {
			if one.File == "" {
				return then, nil
			}
			return then, t.finish(ctx)
		}
		select {
		case <-ctx.Done():
			return Session{}, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// fileTail reads the end of a file.
type fileTail struct {
	s    *Sessions
	name string
	tell func(spec.TranscriptEvent) error
	f    *os.File // nil if not open
	r    *Reader
	lost bool // in a line without an end
}

// reportNew reads the available data. If the file was replaced, or has become shorter, it reads
// from the beginning: the agent has rewritten it.
func (t *fileTail) reportNew(ctx context.Context) error {
	if t.f != nil && t.s.rewritten(t.f, t.name) {
		t.close()
		t.f, t.r, t.lost = nil, NewReader(t.s.rules, t.tell), false
	}
	if t.f == nil {
		var err error
		if t.f, err = t.s.open(t.name); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			return nil // it may come back
		} else if err != nil {
			return err
		}
	}
	return t.readAvailable(ctx)
}

func (t *fileTail) readAvailable(ctx context.Context) error {
	if t.lost {
		return nil
	}
	err := copyLines(t.r, untilDone{ctx, t.f})
	if errors.Is(err, errEndless) {
		t.lost = true
		return nil
	}
	return err
}

func (t *fileTail) finish(ctx context.Context) error {
	if t.f != nil { // read the rest
		if err := t.readAvailable(ctx); err != nil {
			return err
		}
	}
	return t.r.Close()
}

func (t *fileTail) close() { t.f.Close() } // nil is fine

func (s *Sessions) rewritten(f *os.File, name string) bool {
	there, err := s.home.Lstat(name)
	if err != nil {
		return false // the file was removed: keep reading the open one
	}
	info, err := f.Stat()
	if err != nil || !os.SameFile(there, info) {
		return true
	}
	at, err := f.Seek(0, io.SeekCurrent)
	return err != nil || there.Size() < at
}
