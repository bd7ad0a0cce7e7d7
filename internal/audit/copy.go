package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// Copy writes the output kept at path to w, oldest bytes first. With follow it
// goes on until ctx is done, and waits for the output if there is none yet; it
// then returns the error of ctx. Without, and without any output, the error is
// fs.ErrNotExist. The bytes are the program's own: use term.SanitizingWriter
// before they reach a terminal they were not meant for.
func Copy(ctx context.Context, path string, w io.Writer, follow bool) error {
	out := walk{path: path, follow: follow, data: writeTo(w), fileEnd: nothing}
	if err := out.run(ctx); err != nil {
		return fmt.Errorf("copy output log: %w", err)
	}
	return nil
}

// Tail is Copy that begins with the last lines of what is there.
func Tail(ctx context.Context, path string, lines int, w io.Writer, follow bool) error {
	last := tail{lines: lines}
	out := walk{path: path, follow: follow, data: last.add, fileEnd: nothing}
	out.caughtUp = func() error {
		out.data = writeTo(w)
		_, err := w.Write(lastLines(last.held, lines))
		last.held = nil
		return err
	}
	if err := out.run(ctx); err != nil {
		return fmt.Errorf("copy output log: %w", err)
	}
	return nil
}

func nothing() error { return nil }

func writeTo(w io.Writer) func([]byte) error {
	return func(p []byte) error {
		_, err := w.Write(p)
		return err
	}
}

// tail holds the last lines of a stream, and not much more.
type tail struct {
	lines int
	held  []byte
	limit int // where to drop what is not needed
}

func (t *tail) add(p []byte) error {
	t.held = append(t.held, p...)
	if len(t.held) > t.limit {
		t.held = bytes.Clone(lastLines(t.held, t.lines))
		t.limit = max(1<<20, 2*len(t.held))
	}
	return nil
}

// lastLines is the end of p from the beginning of its nth line from the end. A
// last line without its end counts.
func lastLines(p []byte, n int) []byte {
	if n <= 0 {
		return nil
	}
	from := len(bytes.TrimSuffix(p, []byte{'\n'}))
	for range n {
		from = bytes.LastIndexByte(p[:from], '\n')
		if from < 0 {
			return p
		}
	}
	return p[from+1:]
}
