package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Read calls fn for each event of the log at path, oldest first, and stops at the first error of fn,
// which it returns. It skips torn lines. If the log does not exist, the error is fs.ErrNotExist.
func Read(path string, fn func(Event) error) error {
	return readEvents(context.Background(), path, false, fn)
}

// ReadExisting is Read, but treats a log that does not exist as empty.
func ReadExisting(path string, fn func(Event) error) error {
	err := Read(path, fn)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Follow is Read without an end: it waits for further events, and for the log itself if it does not
// exist yet, until ctx is done or fn returns an error. It returns the error of either. It loses nothing
// as long as fn keeps up with the writer. Events more than two files behind are lost.
func Follow(ctx context.Context, path string, fn func(Event) error) error {
	return readEvents(ctx, path, true, fn)
}

func readEvents(ctx context.Context, path string, follow bool, fn func(Event) error) error {
	lines := splitter{each: func(line []byte) error {
		if e, ok := decode(line); ok {
			return fn(e)
		}
		return nil
	}}
	w := walk{path: path, follow: follow, data: lines.addBytes, fileEnd: lines.endLine}
	if err := w.run(ctx); err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	return nil
}

// splitter splits a stream into lines.
type splitter struct {
	each func(line []byte) error
	rest []byte // the start of a line
	skip bool   // the line is longer than any event: wait for its end
}

func (s *splitter) addBytes(p []byte) error {
	for {
		line, after, found := bytes.Cut(p, []byte{'\n'})
		if !found {
			s.keepPart(p)
			return nil
		}
		s.keepPart(line)
		if err := s.endLine(); err != nil {
			return err
		}
		p = after
	}
}

// keepPart adds to the line. maxEvent bounds every line that a Log writes, so a longer line did not come
// from a Log.
func (s *splitter) keepPart(p []byte) {
	if s.skip = s.skip || len(s.rest)+len(p) > maxEvent; s.skip {
		s.rest = s.rest[:0]
		return
	}
	s.rest = append(s.rest, p...)
}

// endLine passes on the line. At the end of a file the line may lack its line end.
func (s *splitter) endLine() error {
	line, skip := s.rest, s.skip
	s.rest, s.skip = s.rest[:0], false
	if skip || len(line) == 0 {
		return nil
	}
	return s.each(line)
}
