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

// Read tells the events of a session, to where it has come. What stands incomplete
// at its end is told as cut short.
func (s *Sessions) Read(ctx context.Context, one Session, tell func(spec.TranscriptEvent) error) error {
	if s.database != nil {
		return s.rowTail(one, tell).read(ctx)
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
	if err := pour(r, io.LimitReader(untilDone{ctx, f}, info.Size())); err != nil && !errors.Is(err, errEndless) { // it may grow for ever
		return err
	}
	return r.Close()
}

// maxSkipped bounds in bytes how far the end of a line is looked for that is too long to
// be read. What is behind it nobody waits for.
const maxSkipped = 64 << 20

var errEndless = errors.New("a line does not end")

// pour writes to a reader what there is. The error is errEndless for a line that is told
// as too long, and did not end.
func pour(r *Reader, from io.Reader) error {
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if _, werr := r.Write(piece[:n]); werr != nil {
			return werr
		}
		if r.dropped > maxSkipped {
			if err := r.end(); err != nil {
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

// How often a reader that waits looks again: for more, and for another session.
const (
	pollEvery = 200 * time.Millisecond
	lookEvery = time.Second
)

// Follow is Read that waits for more, until ctx is done or tell returns an error,
// and returns the error of either. With next it goes on with the session that
// begins after that, and waits for the first if one is the zero Session.
func (s *Sessions) Follow(ctx context.Context, one Session, next bool, tell func(spec.TranscriptEvent) error) error {
	another := func() (Session, error) { return Session{}, nil }
	if next {
		known, looked := map[string]int64{}, time.Now()
		if err := s.know(ctx, known, one); err != nil {
			return err
		}
		another = func() (Session, error) {
			if time.Since(looked) < lookEvery {
				return Session{}, nil
			}
			looked = time.Now()
			return s.fresh(ctx, known, one.speaks)
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

// isKnown stands among what is known of sessions for one that is followed, or was there
// before. Else it is the size of one when nothing in it was understood.
const isKnown = -1

// know takes down what there is beside a session that is to be followed. What was changed
// since, and is not it, is yet to say something.
func (s *Sessions) know(ctx context.Context, known map[string]int64, one Session) error {
	if one.File == "" {
		return nil
	}
	all, err := s.there(ctx)
	for _, other := range all {
		if s.database != nil || !one.speaks || !other.Changed.After(one.Changed) || other.key() == one.key() {
			known[other.key()] = isKnown
		}
	}
	return err
}

// key tells a session from others, before it was looked into.
func (s *Session) key() string { return s.File + "\x00" + s.ID }

// fresh gives a session that was not known, and knows it from then on: the zero
// Session if there is none. One in which nothing is understood does not count if it has
// to: anything may have been put there.
func (s *Sessions) fresh(ctx context.Context, known map[string]int64, speaks bool) (Session, error) {
	all, err := s.there(ctx)
	if err != nil && !errors.Is(err, spec.ErrNotFound) { // a table may be made yet
		return Session{}, err
	}
	for _, one := range slices.Backward(all) {
		key := one.key()
		if was, ok := known[key]; ok && (was == isKnown || was == one.Bytes) {
			continue
		}
		one, err := s.look(ctx, one)
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

// tail is a session that is read on and on.
type tail interface {
	drain(ctx context.Context) error // tells what is new
	end(ctx context.Context) error   // the same, for the last time
	close()
}

func (s *Sessions) tail(one Session, tell func(spec.TranscriptEvent) error) tail {
	if s.database != nil {
		return s.rowTail(one, tell)
	}
	return &fileTail{s: s, name: one.File, tell: tell, r: NewReader(s.rules, tell)}
}

// follow reads one session until there is another.
func (s *Sessions) follow(ctx context.Context, one Session, another func() (Session, error), tell func(spec.TranscriptEvent) error) (Session, error) {
	t := s.tail(one, tell)
	defer t.close()
	for {
		if one.File != "" {
			if err := t.drain(ctx); err != nil {
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
			return then, t.end(ctx)
		}
		select {
		case <-ctx.Done():
			return Session{}, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// fileTail is the end of a file.
type fileTail struct {
	s    *Sessions
	name string
	tell func(spec.TranscriptEvent) error
	f    *os.File // nil: not open
	r    *Reader
	lost bool // in a line without an end
}

// drain reads what there is. A file that was replaced, or has become shorter, is
// read from its beginning: the agent has written it anew.
func (t *fileTail) drain(ctx context.Context) error {
	if t.f != nil && t.s.rewritten(t.f, t.name) {
		t.close()
		t.f, t.r, t.lost = nil, NewReader(t.s.rules, t.tell), false
	}
	if t.f == nil {
		var err error
		if t.f, err = t.s.open(t.name); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			return nil // perhaps it comes back
		} else if err != nil {
			return err
		}
	}
	return t.pour(ctx)
}

func (t *fileTail) pour(ctx context.Context) error {
	if t.lost {
		return nil
	}
	err := pour(t.r, untilDone{ctx, t.f})
	if errors.Is(err, errEndless) {
		t.lost = true
		return nil
	}
	return err
}

func (t *fileTail) end(ctx context.Context) error {
	if t.f != nil { // what came since
		if err := t.pour(ctx); err != nil {
			return err
		}
	}
	return t.r.Close()
}

func (t *fileTail) close() { t.f.Close() } // nil is fine

func (s *Sessions) rewritten(f *os.File, name string) bool {
	there, err := s.home.Lstat(name)
	if err != nil {
		return false // it is gone: what is open stays what it is
	}
	info, err := f.Stat()
	if err != nil || !os.SameFile(there, info) {
		return true
	}
	at, err := f.Seek(0, io.SeekCurrent)
	return err != nil || there.Size() < at
}
