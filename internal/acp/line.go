package acp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// errTooLong is the error of a line above [MaxMessage].
var errTooLong = errors.New("it is longer than 64 MiB")

// lineReader reads messages as lines of bounded length.
type lineReader struct {
	r      *bufio.Reader
	within bool // the rest of a long line is not read yet
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReaderSize(r, 64<<10)} }

// readLine returns the next line that is not blank. After errTooLong, skipLine leads to the next one.
func (l *lineReader) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > MaxMessage {
			l.within = errors.Is(err, bufio.ErrBufferFull)
			return nil, errTooLong
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(bytes.TrimSpace(line)) == 0):
			return nil, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
		line = line[:0]
	}
}

// skipLine reads to the end of a line that was too long, and keeps nothing of it.
func (l *lineReader) skipLine() (err error) {
	for l.within {
		_, err = l.r.ReadSlice('\n')
		l.within = errors.Is(err, bufio.ErrBufferFull)
	}
	return err
}

// stallTime is how long an agent may leave its input unread.
const stallTime = 60 * time.Second

// errStalled is the error of an agent that does not read.
var errStalled = errors.New("the agent does not read its input")

// lineWriter writes messages, each at once, for several goroutines.
type lineWriter struct {
	mu    sync.Mutex
	w     io.Writer
	limit time.Duration // of a write; 0: none
	gone  error         // replaces the error of a write; nil: none does

	short atomic.Int64 // a shorter limit, in nanoseconds; 0: none
}

// shorten lowers the limit of a write that is under way, and of all later ones.
func (l *lineWriter) shorten(limit time.Duration) {
	l.short.Store(int64(limit))
	l.setDeadline(limit)
}

// setDeadline bounds a write, if the writer can do that: a file on a disk waits.
func (l *lineWriter) setDeadline(limit time.Duration) {
	if d, ok := l.w.(interface{ SetWriteDeadline(time.Time) error }); ok && limit > 0 {
		_ = d.SetWriteDeadline(time.Now().Add(limit))
	}
}

func (l *lineWriter) writeMessage(m message) error {
	line := m.encode()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setDeadline(l.limit)
	l.setDeadline(time.Duration(l.short.Load()))
	_, err := l.w.Write(line)
	if t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && t.Timeout() {
		return errStalled
	}
	if err != nil && l.gone != nil {
		return l.gone
	}
	return err
}
