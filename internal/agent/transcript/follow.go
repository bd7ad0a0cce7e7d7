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
	if _, err := io.Copy(r, io.LimitReader(untilDone{ctx, f}, info.Size())); err != nil { // it may grow for ever
		return err
	}
	return r.Close()
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
		known, looked := map[string]bool{}, time.Now()
		if err := s.know(ctx, known, one); err != nil {
			return err
		}
		another = func() (Session, error) {
			if time.Since(looked) < lookEvery {
				return Session{}, nil
			}
			looked = time.Now()
			return s.fresh(ctx, known)
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

// know takes down what there is beside a session that is to be followed.
func (s *Sessions) know(ctx context.Context, known map[string]bool, one Session) error {
	if one.File == "" {
		return nil
	}
	all, err := s.there(ctx)
	for _, one := range all {
		known[one.key()] = true
	}
	return err
}

// key tells a session from others, before it was looked into.
func (s *Session) key() string { return s.File + "\x00" + s.ID }

// fresh gives a session that was not known, and knows it from then on: the zero
// Session if there is none.
func (s *Sessions) fresh(ctx context.Context, known map[string]bool) (Session, error) {
	all, err := s.there(ctx)
	if err != nil && !errors.Is(err, spec.ErrNotFound) { // a table may be made yet
		return Session{}, err
	}
	for _, one := range slices.Backward(all) {
		key := one.key()
		if known[key] {
			continue
		}
		if one, err := s.look(ctx, one); err == nil {
			known[key] = true
			return one, nil
		} else if s.database != nil && !errors.Is(err, spec.ErrNotFound) {
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
}

// drain reads what there is. A file that was replaced, or has become shorter, is
// read from its beginning: the agent has written it anew.
func (t *fileTail) drain(ctx context.Context) error {
	if t.f != nil && t.s.rewritten(t.f, t.name) {
		t.close()
		t.f, t.r = nil, NewReader(t.s.rules, t.tell)
	}
	if t.f == nil {
		var err error
		if t.f, err = t.s.open(t.name); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			return nil // perhaps it comes back
		} else if err != nil {
			return err
		}
	}
	_, err := io.Copy(t.r, untilDone{ctx, t.f})
	return err
}

func (t *fileTail) end(ctx context.Context) error {
	if t.f != nil { // what came since
		if _, err := io.Copy(t.r, untilDone{ctx, t.f}); err != nil {
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
