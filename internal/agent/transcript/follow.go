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
		s.know(known, one)
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
func (s *Sessions) know(known map[string]bool, one Session) {
	if one.File == "" {
		return
	}
	for _, f := range s.files() {
		known[f.name] = true
	}
}

// fresh gives a session that was not known, and knows it from then on: the zero
// Session if there is none.
func (s *Sessions) fresh(ctx context.Context, known map[string]bool) (Session, error) {
	for _, f := range slices.Backward(s.files()) {
		if known[f.name] {
			continue
		}
		if one, err := s.look(ctx, f); err == nil {
			known[f.name] = true
			return one, nil
		}
	}
	return Session{}, ctx.Err()
}

// follow reads one session until there is another.
func (s *Sessions) follow(ctx context.Context, one Session, another func() (Session, error), tell func(spec.TranscriptEvent) error) (Session, error) {
	r := NewReader(s.rules, tell)
	var f *os.File
	defer func() { f.Close() }() // nil is fine
	for {
		if one.File != "" {
			var err error
			if f, r, err = s.drain(ctx, f, one.File, r, tell); err != nil {
				return Session{}, err
			}
		}
		then, err := another()
		if err != nil {
			return Session{}, err
		}
		if then.File != "" {
			if f != nil { // what came since
				if _, err := io.Copy(r, untilDone{ctx, f}); err != nil {
					return Session{}, err
				}
			}
			return then, r.Close()
		}
		select {
		case <-ctx.Done():
			return Session{}, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// drain reads what there is. A file that was replaced, or has become shorter, is
// read from its beginning: the agent has written it anew.
func (s *Sessions) drain(ctx context.Context, f *os.File, name string, r *Reader, tell func(spec.TranscriptEvent) error) (*os.File, *Reader, error) {
	if f != nil && s.rewritten(f, name) {
		f.Close()
		f, r = nil, NewReader(s.rules, tell)
	}
	if f == nil {
		var err error
		if f, err = s.open(name); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			return nil, r, nil // perhaps it comes back
		} else if err != nil {
			return nil, r, err
		}
	}
	_, err := io.Copy(r, untilDone{ctx, f})
	return f, r, err
}

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
