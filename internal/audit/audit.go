// Package audit keeps records in files that only grow.
//
// A Log holds events, one JSON object per line. An Output holds the output of a program, byte for byte.
// Both are bounded: a full file is renamed to path.1, which replaces the previous one, and a new one
// begins; so the disk holds at most twice the limit and always the latest part. Read, Follow and Copy
// read both files in order, while they are written and renamed.
//
// A file has one writer at a time, which many goroutines may use, and any number of readers. Each event
// is a single write, so a process that is killed leaves at most one torn line; readers skip it and the
// next writer ends it. A full disk loses events, but never stops the writer: the loss is counted, and
// the first event that fits again is preceded by one that tells how much is missing.
//
// The kernel has each write at once, but decides itself when it reaches the disk: after a power failure
// the last lines may be missing.
package audit

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// DefaultMaxBytes is the limit of a file if none is given.
const DefaultMaxBytes = 4 << 20

// maxEvent bounds one event, and so the memory of a reader.
const maxEvent = 1 << 20

// Options are the settings of a Log. The zero value is usable.
type Options struct {
	// MaxBytes is the size at which the file becomes the old one. A file holds
	// at least one event, however small this is. Default DefaultMaxBytes.
	MaxBytes int64
}

// Log is an append-only list of events.
type Log struct {
	mu   sync.Mutex
	file *file
	loss loss
}

// Open opens the log at path to append to it, and creates it if it is missing.
func Open(path string, o Options) (*Log, error) {
	f, err := openFile(path, o.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &Log{file: f}, nil
}

// Write records an event of the given kind. Its fields are a map or a struct. It adds "time" and
// "event", which must not be among them.
//
// Write never waits for space on the disk. If the event cannot be written, it is lost and counted, and
// Write returns the error, but only for the first of a row of losses. An event of more than 1 MiB is
// recorded without its fields, so that nothing can hide by being large, and Write returns an error.
func (l *Log) Write(kind string, fields any) error {
	now := time.Now()
	line, err := encode(now, kind, fields)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", kind, err)
	}
	if len(line) <= maxEvent {
		return l.append(now, line)
	}
	stub, err := encode(now, kind[:min(len(kind), 100)], map[string]any{"oversize": len(line)})
	if err == nil {
		err = l.append(now, stub)
	}
	return errors.Join(err, fmt.Errorf("record event of %d bytes: larger than %d, its fields are left out", len(line), maxEvent))
}

func (l *Log) append(now time.Time, line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file.closed {
		return fmt.Errorf("append to log: %w", os.ErrClosed)
	}
	note := l.loss.noteLine(now)
	err := l.writeLines(note, line)
	if err == nil {
		return nil
	}
	if l.loss.addBytes(len(line)) {
		return fmt.Errorf("append to log: %w", err)
	}
	return nil
}

// writeLines makes one write of note and line, and tells the loss which bytes arrived.
func (l *Log) writeLines(note, line []byte) error {
	record := line
	if len(note) > 0 {
		record = append(slices.Clip(note), line...)
	}
	if err := l.file.makeRoom(len(record) + 1); err != nil {
		return err
	}
	lead := 0
	if l.file.isTorn() {
		record, lead = append([]byte{'\n'}, record...), 1
	}
	n, err := l.file.write(record)
	if n >= lead+len(note) {
		l.loss.clearNoted()
	}
	if n >= len(record)-1 { // everything except the line end, which the next write adds
		err = nil
	}
	if err == nil {
		l.loss.endLoss()
	}
	return err
}

// Lost reports whether the latest event was lost. It stays true until an event is written again, or
// Retry has an effect.
func (l *Log) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loss.ongoing
}

// Retry records the loss without waiting for the next event. It returns an error as long as the
// record cannot be written either.
func (l *Log) Retry() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file.closed {
		return fmt.Errorf("append to log: %w", os.ErrClosed)
	}
	if !l.loss.ongoing {
		return nil
	}
	if err := l.writeLines(l.loss.noteLine(time.Now()), nil); err != nil {
		return fmt.Errorf("append to log: %w", err)
	}
	return nil
}

// Close ends the log. If something was lost, this is the last chance to record it.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file.closed {
		return nil
	}
	if note := l.loss.noteLine(time.Now()); len(note) > 0 {
		_ = l.writeLines(nil, note) // it was reported when it happened
	}
	return l.file.close()
}
